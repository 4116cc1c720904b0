package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stateFlag declares the flag that says where the lab is.
func stateFlag(flags *flag.FlagSet) *string {
	return flags.String("state", "", "state `folder` of the lab (default $PDO_LAB_STATE, or pd-orchestrator-lab in the user's state folder)")
}

// stateDir returns the lab's state folder, which need not exist.
func stateDir(flagged string) (string, error) {
	if flagged == "" {
		flagged = os.Getenv("PDO_LAB_STATE")
	}
	if flagged != "" {
		return filepath.Abs(flagged)
	}
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("finding a place for the lab's state (set PDO_LAB_STATE to choose one): %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "pd-orchestrator-lab"), nil
}

// Lock files in the state folder. Locks are dropped by the kernel when their
// holder ends, so a lock that is held means that its holder lives.
const (
	// upLock is held while a lab is being started or stopped by a command.
	upLock = "up.lock"
	// supervisorLock is held by the process that holds the lab; the file names
	// its process id.
	supervisorLock = "supervisor.lock"
)

// lockPoll is the time between two attempts to take a lock.
const lockPoll = 50 * time.Millisecond

// errLocked is returned by tryLock when somebody else holds the lock.
var errLocked = errors.New("locked by another process")

func tryLock(stateDir, name string) (*os.File, error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, fmt.Errorf("making the state folder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(stateDir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the state folder: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("locking the state folder: %w", err)
	}
	return file, nil
}

// lock waits for a lock. waiting is called once if it is not free.
func lock(ctx context.Context, stateDir, name string, waiting func()) (*os.File, error) {
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for first := true; ; first = false {
		file, err := tryLock(stateDir, name)
		if !errors.Is(err, errLocked) {
			return file, err
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another lab command: %w", ctx.Err())
		case <-ticker.C:
		}
	}
}

// supervisorPID returns the process that holds the lab, or 0 if there is none.
func supervisorPID(stateDir string) (int, error) {
	if _, err := os.Stat(filepath.Join(stateDir, supervisorLock)); errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	file, err := tryLock(stateDir, supervisorLock)
	if err == nil {
		return 0, file.Close()
	}
	if !errors.Is(err, errLocked) {
		return 0, err
	}
	text, err := os.ReadFile(filepath.Join(stateDir, supervisorLock))
	if err != nil {
		return 0, fmt.Errorf("finding the process that holds the lab: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("finding the process that holds the lab: %w", err)
	}
	return pid, nil
}
