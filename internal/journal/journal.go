// Package journal keeps what tests have others write beside each other: lines of logs, and what processes print.
//
// Invariants:
//
//  1. Writers and readers may run at the same time. The bytes of one Write stand together.
//  2. Nothing that was written is lost or changed.
//
// The package never writes to a file or to the test's own log.
package journal

import (
	"bytes"
	"log/slog"
	"sync"
)

// Journal keeps what is written.
type Journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (j *Journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// String returns the whole text written so far.
func (j *Journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// Log returns a logger whose lines go to the journal.
func (j *Journal) Log() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }
