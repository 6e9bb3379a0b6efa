package node

import (
	"context"
	"fmt"
	"io"
	golog "log"
	"log/slog"
	"os"
	"strings"

	"github.com/tochemey/goakt/v3/log"
)

// NewLogger writes structured lines of JSON.
func NewLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}

// bridge hands GoAkt's log lines to slog, one level lower than GoAkt has them
// where they tell of nothing but its own course: what GoAkt calls info is of
// use to somebody who debugs GoAkt.
type bridge struct{ to *slog.Logger }

var _ log.Logger = bridge{}

func (b bridge) write(level slog.Level, args []any) {
	b.line(level, strings.TrimSuffix(fmt.Sprintln(args...), "\n"))
}

func (b bridge) writef(level slog.Level, format string, args []any) {
	if b.to.Enabled(context.Background(), level) {
		b.line(level, fmt.Sprintf(format, args...))
	}
}

func (b bridge) line(level slog.Level, text string) {
	text = strings.TrimSpace(text)
	if level == slog.LevelWarn && isLookup(text) {
		level = slog.LevelDebug
	}
	b.to.Log(context.Background(), level, text)
}

// isLookup recognizes what GoAkt says of a name that is free, each time that
// somebody asks.
func isLookup(text string) bool {
	return strings.HasPrefix(text, "Actor ") && strings.HasSuffix(text, " not found")
}

func (b bridge) Debug(args ...any)                 { b.write(slog.LevelDebug, args) }
func (b bridge) Debugf(format string, args ...any) { b.writef(slog.LevelDebug, format, args) }
func (b bridge) Info(args ...any)                  { b.write(slog.LevelDebug, args) }
func (b bridge) Infof(format string, args ...any)  { b.writef(slog.LevelDebug, format, args) }
func (b bridge) Warn(args ...any)                  { b.write(slog.LevelWarn, args) }
func (b bridge) Warnf(format string, args ...any)  { b.writef(slog.LevelWarn, format, args) }
func (b bridge) Error(args ...any)                 { b.write(slog.LevelError, args) }
func (b bridge) Errorf(format string, args ...any) { b.writef(slog.LevelError, format, args) }

// Fatal ends the process, as log.Logger demands of it.
func (b bridge) Fatal(args ...any) {
	b.write(slog.LevelError, args)
	os.Exit(1)
}

// Fatalf ends the process, as log.Logger demands of it.
func (b bridge) Fatalf(format string, args ...any) {
	b.writef(slog.LevelError, format, args)
	os.Exit(1)
}

// Panic panics, as log.Logger demands of it.
func (b bridge) Panic(args ...any) {
	b.write(slog.LevelError, args)
	panic(fmt.Sprint(args...))
}

// Panicf panics, as log.Logger demands of it.
func (b bridge) Panicf(format string, args ...any) {
	b.writef(slog.LevelError, format, args)
	panic(fmt.Sprintf(format, args...))
}

// LogLevel also sets the verbosity of the cluster's registry, so it never
// asks for more than is written.
func (b bridge) LogLevel() log.Level {
	switch ctx := context.Background(); {
	case b.to.Enabled(ctx, slog.LevelDebug):
		return log.InfoLevel
	case b.to.Enabled(ctx, slog.LevelWarn):
		return log.WarningLevel
	}
	return log.ErrorLevel
}

func (b bridge) LogOutput() []io.Writer   { return []io.Writer{writer{b}} }
func (b bridge) Flush() error             { return nil }
func (b bridge) StdLogger() *golog.Logger { return golog.New(writer{b}, "", 0) }

// writer takes lines from loggers of the standard library.
type writer struct{ b bridge }

func (w writer) Write(p []byte) (int, error) {
	w.b.line(slog.LevelDebug, string(p))
	return len(p), nil
}
