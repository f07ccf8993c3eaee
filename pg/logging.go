package pg

import (
	"context"
	"log/slog"
)

// defaultLog is the logger of programs that give none: slog's own, but nothing below warnings unless the debug level asks
// for it.
func defaultLog(level DebugLevel) *slog.Logger {
	if level >= DebugInfo {
		return slog.Default()
	}
	return slog.New(warnings{slog.Default().Handler()})
}

// warnings passes on warnings and errors.
type warnings struct{ slog.Handler }

// Enabled refuses what is less.
func (q warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && q.Handler.Enabled(ctx, l)
}

// WithAttrs keeps to warnings.
func (q warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{q.Handler.WithAttrs(attrs)}
}

// WithGroup keeps to warnings.
func (q warnings) WithGroup(name string) slog.Handler { return warnings{q.Handler.WithGroup(name)} }
