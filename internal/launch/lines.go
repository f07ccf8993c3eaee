package launch

import (
	"bytes"
	"io"
	"sync"
)

// longestLine bounds what a Lines holds back while it waits for the end of a line.
const longestLine = 64 << 10

// Lines writes the lines of several streams to one writer, each line whole and behind its stream's prefix.
type Lines struct {
	mu sync.Mutex
	to io.Writer
}

// NewLines writes to w.
func NewLines(w io.Writer) *Lines { return &Lines{to: w} }

// Stream is one stream of a Lines. It is for one goroutine.
type Stream struct {
	lines  *Lines
	prefix []byte
	part   []byte // of a line, without its end
}

// Stream returns a stream whose lines begin with prefix.
func (l *Lines) Stream(prefix string) *Stream { return &Stream{lines: l, prefix: []byte(prefix)} }

// Write passes on the lines that have ended and keeps the rest.
func (s *Stream) Write(p []byte) (int, error) {
	s.part = append(s.part, p...)
	end := bytes.LastIndexByte(s.part, '\n') + 1
	if end == 0 && len(s.part) < longestLine {
		return len(p), nil
	}
	if end == 0 {
		return len(p), s.Flush()
	}
	err := s.pass(s.part[:end])
	s.part = append(s.part[:0], s.part[end:]...)
	return len(p), err
}

// Flush passes on a last line that has no end.
func (s *Stream) Flush() error {
	if len(s.part) == 0 {
		return nil
	}
	err := s.pass(append(s.part, '\n'))
	s.part = s.part[:0]
	return err
}

func (s *Stream) pass(whole []byte) error {
	var out []byte
	for line := range bytes.Lines(whole) {
		out = append(append(out, s.prefix...), line...)
	}
	s.lines.mu.Lock()
	defer s.lines.mu.Unlock()
	_, err := s.lines.to.Write(out)
	return err
}
