package transporttest

import (
	"bytes"
	"log/slog"
	"sync"
)

// Journal keeps what is logged, for tests that look at it while a mesh goes on to log.
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

// String returns what has been logged.
func (j *Journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// Log returns a logger that writes to the journal.
func (j *Journal) Log() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }
