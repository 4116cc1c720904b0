package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// tailBytes bounds what Tail reads, however long the lines are.
const tailBytes = 64 << 10

// Tail returns the last lines of a file, without a final newline. Of lines
// longer than 64 KiB together only the end is returned.
func Tail(path string, lines int) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading the end of a log: %w", err)
	}
	defer func() { _ = file.Close() }()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return "", fmt.Errorf("reading the end of %s: %w", path, err)
	}
	from := max(0, size-tailBytes)
	buffer := make([]byte, size-from)
	if _, err := file.ReadAt(buffer, from); err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading the end of %s: %w", path, err)
	}
	text := bytes.TrimRight(buffer, "\n")
	for i, n := len(text)-1, 0; i >= 0; i-- {
		if text[i] == '\n' {
			if n++; n == lines {
				text = text[i+1:]
				break
			}
		}
	}
	return string(text), nil
}
