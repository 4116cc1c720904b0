package manager

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/go-logr/logr"

	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
)

// NewLogger returns a logger that writes to standard error as the configuration says.
func NewLogger(c config.Log) logr.Logger {
	return newLogger(os.Stderr, c)
}

func newLogger(w io.Writer, c config.Log) logr.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(-c.Level), ReplaceAttr: readable}
	if c.Format == "text" {
		return logr.FromSlogHandler(slog.NewTextHandler(w, options))
	}
	return logr.FromSlogHandler(slog.NewJSONHandler(w, options))
}

// readable has the watches that controller-runtime logs say what they are of: as JSON they are empty, or an error.
func readable(_ []string, a slog.Attr) slog.Attr {
	if s, ok := a.Value.Any().(fmt.Stringer); ok && a.Key == "source" {
		return slog.String(a.Key, s.String())
	}
	return a
}
