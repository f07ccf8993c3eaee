package trace

import (
	"bufio"
	"encoding/json"
	"io"
)

// script writes JSON piece by piece, so that no drawing is in memory as a whole. Its first error is kept until the end.
type script struct {
	w   *bufio.Writer
	err error
}

func newScript(w io.Writer) *script { return &script{w: bufio.NewWriterSize(w, 64<<10)} }

// raw writes text as it is.
func (s *script) raw(text string) {
	if s.err == nil {
		_, s.err = s.w.WriteString(text)
	}
}

// value writes a value as JSON. Characters that would end a script element are escaped.
func (s *script) value(v any) {
	b, err := json.Marshal(v)
	if s.err == nil {
		s.err = err
	}
	if s.err == nil {
		_, s.err = s.w.Write(b)
	}
}

// list writes a list of n elements, each by a call.
func (s *script) list(n int, element func(i int)) {
	s.raw("[")
	for i := range n {
		if i > 0 {
			s.raw(",")
		}
		element(i)
	}
	s.raw("]")
}

// flush writes what is left and returns the first error.
func (s *script) flush() error {
	if s.err == nil {
		s.err = s.w.Flush()
	}
	return s.err
}
