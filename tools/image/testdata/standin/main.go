// Command standin stands for the manager in the tests: it is small, and has one dependency.
package main

import (
	"fmt"

	"github.com/package-url/packageurl-go"
)

func main() { fmt.Println(packageurl.TypeGolang) }
