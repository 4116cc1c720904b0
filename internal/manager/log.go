package manager

import (
	"log/slog"
	"os"

	"github.com/go-logr/logr"

	"github.com/pd-orchestrator/pd-orchestrator/internal/config"
)

// NewLogger returns a logger that writes to standard error as the configuration says.
func NewLogger(c config.Log) logr.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(-c.Level)}
	if c.Format == "text" {
		return logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, options))
	}
	return logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, options))
}
