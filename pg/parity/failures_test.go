package parity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

// TestAbortPG aborts the group from another goroutine while an operation waits for a rank that never calls it.
func TestAbortPG(t *testing.T) {
	each(t, 2, func(r *rank) {
		r.summed()
		if r.Rank() != 0 {
			r.tell()
			<-r.failed()
			return
		}
		r.hearAll()
		w := r.AllReduceAsync(r.ctx, full(r, 100, float32(1)), colligo.Sum)
		reason := errors.New("the operator said so")
		go r.Abort(reason)
		err := w.Synchronize(r.ctx)
		require.ErrorIs(r.t, err, reason)
		r.gone("the operator said so")
	})
}

// tell tells rank 0 that this rank is through with what it has called, so that rank 0 may abort. The abort can still meet
// the message's own end.
func (r *rank) tell() { _ = r.Send(r.t.Context(), colligo.Of([]int32{1}), 0, 77) }

// hearAll waits for what the others tell.
func (r *rank) hearAll() {
	for from := 1; from < r.Size(); from++ {
		require.NoError(r.t, r.Recv(r.t.Context(), colligo.Of([]int32{0}), from, 77))
	}
}

// failed is closed when the rank's group has failed.
func (r *rank) failed() <-chan struct{} {
	c := make(chan struct{})
	go func() {
		defer close(c)
		for r.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	return c
}

// gone expects later operations to fail with the original reason.
func (r *rank) gone(reason string) {
	err := r.AllReduce(r.ctx, full(r, 2, float32(1)), colligo.Sum)
	require.ErrorContains(r.t, err, reason)
}

// TestNCCLPropagateErrorReason has operations after a timeout say what the group failed of, on both ranks.
func TestNCCLPropagateErrorReason(t *testing.T) {
	beside(t)
	eachWith(t, 2, options{waits: true}, func(r *rank) {
		r.summed()
		r.meet("summed")
		if r.Rank() == 0 {
			<-r.failed()
			require.ErrorIs(r.t, r.Err(), colligo.ErrTimeout)
			return
		}
		ctx, cancel := context.WithTimeout(r.ctx, 500*time.Millisecond)
		defer cancel()
		if r.gpu != nil {
			ctx = r.ctx
			require.NoError(r.t, r.SetTimeout(500*time.Millisecond))
		}
		err := r.AllReduceAsync(ctx, full(r, 1, float32(1)), colligo.Sum).Synchronize(r.ctx)
		require.ErrorIs(r.t, err, colligo.ErrTimeout)
		require.ErrorContains(r.t, err, "rank 0")
		r.gone("rank 0")
	})
}

// dumped reads the dump of a rank, as soon as it is there.
func dumped(t *testing.T, dir string, rank int) *flight.Dump {
	name := filepath.Join(dir, fmt.Sprint("trace_", rank))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) && time.Now().Before(deadline) {
			continue
		}
		require.NoError(t, err)
		d, err := flight.Read(f)
		require.NoError(t, errors.Join(err, f.Close()))
		return d
	}
}

// lateOn has rank 0 alone call a second all-reduce, with what rank 1 does meanwhile, and then looks at the dumps. It does so with
// ranks of one process on every medium in real time, which has a short limit for this operation.
func lateOn(t *testing.T, meanwhile func(r *rank), look func(t *testing.T, dir string)) {
	o := options{noSim: true, look: look, files: func(c *pg.Config, dir string) {
		c.Recorder.DumpOnError, c.Recorder.DumpFile = pg.On, filepath.Join(dir, "trace_")
	}}
	eachWith(t, 2, o, func(r *rank) {
		x := full(r, 12, float32(1))
		require.NoError(r.t, r.AllReduceAsync(r.ctx, x, colligo.Sum).Synchronize(r.ctx))
		r.meet("reduced")
		require.NoError(r.t, r.SetTimeout(time.Second))
		if r.Rank() == 1 {
			meanwhile(r)
			return
		}
		err := r.AllReduceAsync(r.ctx, x, colligo.Sum).Synchronize(r.ctx)
		require.ErrorContains(r.t, err, "rank 1")
	})
}

// recent returns the all-reduces of a dump.
func recent(d *flight.Dump) (all []flight.Entry) {
	for _, e := range d.Entries {
		if e.Name == "nccl:all_reduce" {
			all = append(all, e)
		}
	}
	return all
}
