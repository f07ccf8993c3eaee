package parity

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

var storms = flag.Int("parity.storms", 2, "how many random programs TestStorms runs for each medium and fault")

// stormFaults are what one rank does in the midst of a program, and what the error of every call that fails of it must say. V stands for
// the rank. The error of a late message tells in what its other end is, which may be what waits for rank V.
var stormFaults = map[string]struct {
	is   error
	says string
	runs func(m *mortal) (ends bool) // it returns false if the rank goes on
}{
	"dies":           {colligo.ErrPeerLost, `rank V\b`, func(m *mortal) bool { m.die(m.Rank()); return true }},
	"aborts":         {pg.ErrAborted, "because of the moon", func(m *mortal) bool { m.Abort(errors.New("because of the moon")); return false }},
	"closes":         {colligo.ErrPeerLost, `rank V\b`, func(m *mortal) bool { _ = m.Close(); return true }},
	"stands still":   {colligo.ErrTimeout, `\bV\b|rank \d is in `, func(m *mortal) bool { <-m.failed(); return false }},
	"other length":   {colligo.ErrMismatch, "called", func(*mortal) bool { return false }},
	"other sequence": {colligo.ErrMismatch, "called", func(*mortal) bool { return false }},
}

// TestStorms runs random programs, in which one rank has a fault. Up to four calls are under way at a time. Results are right until then.
// Afterwards every call ends on every rank, with an error that tells of the fault, and so does a later call.
func TestStorms(t *testing.T) {
	beside(t)
	for fault := range stormFaults {
		for _, medium := range []string{"cpu", "peer", "staged", "nccl"} {
			if medium == "peer" && fault == "closes" {
				continue // it frees memory after a second that its peers have mapped, which the simulator reports
			}
			for seed := range uint64(*storms) {
				t.Run(fmt.Sprintf("medium=%s/fault=%s/seed=%d", medium, strings.ReplaceAll(fault, " ", "_"), seed), func(t *testing.T) {
					beside(t)
					rng := rand.New(rand.NewPCG(seed, 7))
					s := &storm{seed: seed, fault: fault, size: 2 + rng.IntN(3), at: rng.IntN(12)}
					s.victim = rng.IntN(s.size)
					jobOf(t, medium, s.size, func(m *mortal) { (&stormy{mortal: m, storm: s}).run() })
				})
			}
		}
	}
}

// storm is one program.
type storm struct {
	seed             uint64
	fault            string
	size, victim, at int // the victim has the fault before this step
}

// stormy is one rank of a program.
type stormy struct {
	*mortal
	*storm
	open []started
}

// started is a call that is under way.
type started struct {
	what string
	w    *pg.Work
	x    colligo.Tensor
	want []float32 // of x, when the call has ended
}

func (s *stormy) run() {
	s.meetAll()
	require.NoError(s.t, s.SetTimeout(8*time.Second)) // for the fault; ranks of a busy machine open their backends longer apart
	rng, fault := rand.New(rand.NewPCG(s.seed, 99)), stormFaults[s.fault]
	for step := 0; ; step++ {
		kind, n, root, most := rng.IntN(6), []int{1, 100, 3000, 70_000}[rng.IntN(4)], rng.IntN(s.size), rng.IntN(4)
		if step > s.at {
			n = 10
		}
		other := step == s.at && (s.fault == "other length" || s.fault == "other sequence")
		if other {
			kind = 0
		}
		if step == s.at && s.Rank() == s.victim {
			time.Sleep(time.Duration(s.seed%5) * 10 * time.Millisecond)
			if fault.runs(s.mortal) {
				return
			}
			if s.fault == "other length" {
				n++
			}
			if s.fault == "other sequence" {
				kind = 2
			}
		}
		s.call(step, kind, n, root)
		for len(s.open) > most && s.Err() == nil {
			s.end(s.open[0])
			s.open = s.open[1:]
		}
		if s.Err() != nil {
			break
		}
		if s.gpu != nil && len(s.open) == 0 {
			s.arena.used = 0
		}
	}
	for _, c := range s.open {
		s.end(c)
	}
	s.judge("a later barrier", s.Barrier(s.ctx))
}

// meetAll has each pair of ranks exchange a message. NCCL makes the communicator of two ranks with their first, and both wait for it.
func (s *stormy) meetAll() {
	x := full(s.rank, 1, float32(0))
	for a := range s.size {
		for b := range a {
			for _, way := range [][2]int{{a, b}, {b, a}} {
				switch s.Rank() {
				case way[0]:
					require.NoError(s.t, s.Send(s.ctx, x, way[1], 0))
				case way[1]:
					require.NoError(s.t, s.Recv(s.ctx, x, way[0], 0))
				}
			}
		}
	}
	s.meets("met", s.Rank(), []int{0, 1, 2, 3}[:s.size])
}

// call starts a call, or two messages around the ring of ranks.
func (s *stormy) call(step, kind, n, root int) {
	me, mine := s.Rank(), float32(s.Rank()+1)
	next, before := (me+1)%s.size, (me+s.size-1)%s.size
	start := func(what string, w *pg.Work, x colligo.Tensor, want []float32) {
		s.open = append(s.open, started{what, w, x, want})
	}
	x := full(s.rank, n, mine)
	switch kind {
	case 0, 1:
		start("all_reduce", s.AllReduceAsync(s.ctx, x, colligo.Sum), x, repeat(n, float32(s.size*(s.size+1)/2)))
	case 2:
		start("broadcast", s.BroadcastAsync(s.ctx, x, root), x, repeat(n, float32(root+1)))
	case 3:
		all, want := full(s.rank, 10*s.size, float32(0)), []float32(nil)
		for r := range s.size {
			want = append(want, repeat(10, float32(r+1))...)
		}
		start("all_gather", s.AllGatherIntoTensorAsync(s.ctx, all, full(s.rank, 10, mine)), all, want)
	case 4:
		y := full(s.rank, n, float32(0))
		start("send", s.SendAsync(s.ctx, x, next, step), x, repeat(n, mine))
		start("recv", s.RecvAsync(s.ctx, y, before, step), y, repeat(n, float32(before+1)))
	case 5:
		y := full(s.rank, 50, float32(0))
		start("batch", s.CoalesceAsync(s.ctx, func(b *pg.Batch) error {
			b.Send(full(s.rank, 50, mine), next, step)
			b.Recv(y, before, step)
			return nil
		}), y, repeat(50, float32(before+1)))
	}
}

// end waits for a call. Until the group has failed its result is right, unless lengths differ and nobody has told of it yet.
func (s *stormy) end(c started) {
	if err := c.w.Synchronize(context.Background()); err != nil {
		s.judge(c.what, err)
		return
	}
	if got := values[float32](s.rank, c.x); s.fault != "other length" && s.Err() == nil && !slices.Equal(got, c.want) {
		s.t.Errorf("rank %d: %s has a wrong result", s.Rank(), c.what)
	}
}

// judge holds an error to the fault.
func (s *stormy) judge(what string, err error) {
	fault := stormFaults[s.fault]
	says := regexp.MustCompile(strings.ReplaceAll(fault.says, "V", fmt.Sprint(s.victim)))
	if !errors.Is(err, fault.is) || !says.MatchString(err.Error()) {
		s.t.Errorf("rank %d, where rank %d %s: %s: %v", s.Rank(), s.victim, s.fault, what, err)
	}
}
