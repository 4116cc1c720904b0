package plugin

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// onTerminal runs the plug-in on a terminal of its own, with one more variable around it, and returns what the terminal shows.
func onTerminal(t *testing.T, environment string, args ...string) string {
	t.Helper()
	screen, terminal := openTerminal(t)
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), environment}
	cmd.Stdout, cmd.Stderr = terminal, terminal
	err := errors.Join(cmd.Start(), terminal.Close())
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	// A terminal that nobody holds any more ends with EIO.
	if _, err := io.Copy(&shown, screen); !errors.Is(err, syscall.EIO) {
		t.Errorf("the terminal ended with %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the plug-in: %v; the terminal shows\n%s", err, shown.String())
	}
	return shown.String()
}

// openTerminal makes a terminal: what is written to the second file is read from the first.
func openTerminal(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return screen, terminal
}
