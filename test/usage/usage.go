// Package usage tells what a process costs. Only tests and benchmarks import it.
package usage

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// clockTicks is the number of ticks per second that Linux counts CPU time in, on every architecture that Go runs on.
const clockTicks = 100

// Usage is what a process has used so far.
type Usage struct {
	// CPU is the time of all its threads, in user and in kernel mode.
	CPU time.Duration
	// Resident is the memory that it holds now, in bytes.
	Resident int64
}

// Of reads what a process has used. It works on Linux.
func Of(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("reading the use of process %d: %w", pid, err)
	}
	// The name of the program stands in parentheses and may hold anything. After it come the fields from the third on.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 22 {
		return Usage{}, fmt.Errorf("reading the use of process %d: %q has too few fields", pid, stat)
	}
	var numbers [3]int64
	for i, at := range []int{11, 12, 21} { // utime, stime, rss
		if numbers[i], err = strconv.ParseInt(string(fields[at]), 10, 64); err != nil {
			return Usage{}, fmt.Errorf("reading the use of process %d: %w", pid, err)
		}
	}
	return Usage{
		CPU:      time.Duration(numbers[0]+numbers[1]) * time.Second / clockTicks,
		Resident: numbers[2] * int64(os.Getpagesize()),
	}, nil
}
