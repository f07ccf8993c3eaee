package transporttest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/colligo-go/colligo/transport"
)

func TestRendezvous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRendezvous()
		got := make(chan string)
		go func() {
			v, err := r.Get(t.Context(), "a")
			if err != nil {
				t.Error(err)
			}
			got <- string(v)
		}()
		synctest.Wait()
		value := []byte("one")
		if err := r.Set(t.Context(), "a", value); err != nil {
			t.Fatal(err)
		}
		value[0] = 'x'
		if v := <-got; v != "one" {
			t.Errorf("got %q", v)
		}
		if err := r.Set(t.Context(), "a", nil); err != nil {
			t.Fatal(err)
		}
		if v, err := r.Get(t.Context(), "a"); len(v) != 0 || err != nil {
			t.Errorf("after a second set: %q, %v", v, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Get(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"b"`) {
			t.Errorf("a key that nobody sets: %v", err)
		}
	})
}

// Every difference between what was sent and what came shows.
func TestStreamCheck(t *testing.T) {
	s := &Stream{Group: 1, Src: 2, Dst: 3, Lane: 1, Sizes: []int{0, 1, 7, 8, 9, 100, 100}}
	for i, n := range s.Sizes {
		h, p := s.Header(i), make([]byte, n)
		s.Fill(i, p)
		if err := s.Check(i, &h, p); err != nil {
			t.Fatal(err)
		}
		for k := range p {
			p[k] ^= 1
			if s.Check(i, &h, p) == nil {
				t.Errorf("frame %d of %d bytes: byte %d may be anything", i, n, k)
			}
			p[k] ^= 1
		}
		if s.Check(i, &h, append(p, 0)) == nil {
			t.Errorf("frame %d of %d bytes may be longer", i, n)
		}
		h.Call.Root++
		if s.Check(i, &h, p) == nil {
			t.Errorf("frame %d: the root may be anything", i)
		}
	}
	h, p := s.Header(5), make([]byte, 100)
	s.Fill(6, p)
	if s.Check(5, &h, p) == nil {
		t.Errorf("frame 6 passes for frame 5")
	}
}

// still is a mesh on which nothing ever moves.
type still struct{ transport.Mesh }

func (still) Wait(_ int, until time.Time) { time.Sleep(time.Until(until)) }

// script is a flow that does what it is told.
type script struct {
	err   error
	moves int
}

func (s *script) String() string { return "script" }

func (s *script) Step() (moved, done bool, err error) {
	s.moves--
	return s.moves >= 0, s.moves == 0, s.err
}

func TestDrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := Drive(still{}, time.Second, &script{moves: 3}, &script{moves: 1}); err != nil {
			t.Errorf("flows that end: %v", err)
		}
		begin := time.Now()
		err := Drive(still{}, time.Second, &script{moves: 3}, &script{moves: -1})
		if took := time.Since(begin); err == nil || took != time.Second || !strings.Contains(err.Error(), "1 of 2 flows are not done; the first: script") {
			t.Errorf("a flow that does not move: %v after %v", err, took)
		}
		broken := errors.New("broken")
		if err := Drive(still{}, time.Second, &script{moves: 9, err: broken}); !errors.Is(err, broken) {
			t.Errorf("a flow that fails: %v", err)
		}
	})
}
