package parity

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

var everything = flight.DumpOptions{Entries: true, Frames: true}

// named is how errors and Close name an operation.
func named(coll string, number int) string { return fmt.Sprintf("%s #%d", coll, number) }

// calls are the ways to call an all-reduce and to be done with it: for its effect on the rank's stream, not on the host.
var calls = map[string]func(r *rank, x colligo.Tensor) error{
	"blocking":     func(r *rank, x colligo.Tensor) error { return r.AllReduce(r.ctx, x, colligo.Sum) },
	"asynchronous": func(r *rank, x colligo.Tensor) error { return r.AllReduceAsync(r.ctx, x, colligo.Sum).Wait(r.ctx) },
	"block": func(r *rank, x colligo.Tensor) error {
		return r.Coalesce(r.ctx, func(b *pg.Batch) error { b.AllReduce(x, colligo.Sum); return nil })
	},
	"merged block": func(r *rank, x colligo.Tensor) error { // of which all media keep one record
		return r.Coalesce(r.ctx, func(b *pg.Batch) error {
			b.AllReduce(x.Slice(0, x.Len()/3), colligo.Sum)
			b.AllReduce(x.Slice(x.Len()/3, x.Len()), colligo.Sum)
			return nil
		})
	},
}

// eachCall runs f for each way to call, with durations measured and not.
func eachCall(t *testing.T, f func(t *testing.T, timing bool, call func(r *rank, x colligo.Tensor) error)) {
	for name, call := range calls {
		for _, timing := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/timing=%v", name, timing), func(t *testing.T) { f(t, timing, call) })
		}
	}
}

// stuck calls an all-reduce that the peer does not call. On the CPU a goroutine calls it, for there it does not return.
func (r *rank) stuck(call func(r *rank, x colligo.Tensor) error, x colligo.Tensor) {
	if r.gpu == nil {
		go func() { _ = call(r, x) }() // the group's error is asserted where it fails
		return
	}
	require.NoError(r.t, call(r, x))
}

// hung is the state of an operation whose turn has come, and which waits for its peer.
func (r *rank) hung(timing bool) flight.State {
	if r.gpu == nil || timing {
		return flight.Started
	}
	return flight.Scheduled
}

// done fails the test unless an entry is that of an operation that is done.
func (r *rank) done(e flight.Entry, timing bool) {
	require.Equal(r.t, flight.Completed, e.State, "%+v", e)
	require.True(r.t, e.Retired)
	require.Equal(r.t, timing, e.Duration >= 0, "%+v", e)
	require.GreaterOrEqual(r.t, e.DiscoveredCompleted, e.Created)
	if timing {
		require.NotZero(r.t, e.DiscoveredStarted)
		require.LessOrEqual(r.t, e.DiscoveredStarted, e.DiscoveredCompleted)
	}
}

// limit is how long an operation on the rank's tensors may take.
func (r *rank) limit() time.Duration {
	if r.gpu != nil {
		return pg.DefaultDeviceTimeout
	}
	return pg.DefaultTimeout
}

// status is how far the group has come by a dump.
func (r *rank) status() flight.Status { return r.Dump(flight.DumpOptions{}).Status["0"] }

const before = 10 // operations that are done before one hangs

// TestStatesOfDone dumps at once after the rank has seen the results of operations.
func TestStatesOfDone(t *testing.T) {
	eachCall(t, func(t *testing.T, timing bool, call func(*rank, colligo.Tensor) error) {
		each(t, 2, func(r *rank) {
			r.SetTiming(timing)
			x := full(r, 100, float32(1))
			for n := 1; n <= before; n++ {
				require.NoError(r.t, call(r, x))
				values[float32](r, x)
				es := r.Dump(everything).Entries
				require.Len(r.t, es, n)
				r.done(es[n-1], timing)
				require.Equal(r.t, flight.Status{LastEnqueued: int64(n), LastStarted: int64(n), LastCompleted: int64(n)}, r.status())
			}
			require.NoError(r.t, r.Close())
		})
	})
}

// TestStatesWhileStuck dumps while one operation hangs, and others behind it.
func TestStatesWhileStuck(t *testing.T) {
	eachCall(t, func(t *testing.T, timing bool, call func(*rank, colligo.Tensor) error) {
		each(t, 2, func(r *rank) {
			r.SetTiming(timing)
			x := full(r, 100, float32(1))
			for range before {
				require.NoError(r.t, call(r, x))
			}
			if r.Rank() == 0 {
				require.NoError(r.t, r.Store().Wait(r.t.Context(), "dumped"))
				for range 2 {
					require.NoError(r.t, call(r, x))
				}
				require.NoError(r.t, r.WaitPending(r.t.Context()))
				return
			}
			r.stuck(call, x)
			r.stuck(call, x)
			hung := r.hung(timing)
			want := flight.Status{LastEnqueued: before + 2, LastStarted: before, LastCompleted: before}
			if hung == flight.Started {
				want.LastStarted++
			}
			for range 6000 { // the device may need a moment
				if r.status() == want {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			d := r.Dump(everything)
			require.Equal(r.t, want, d.Status["0"])
			require.Len(r.t, d.Entries, before+2)
			for _, e := range d.Entries[:before] {
				r.done(e, timing)
			}
			require.Equal(r.t, hung, d.Entries[before].State)
			require.Equal(r.t, flight.Scheduled, d.Entries[before+1].State)
			for _, e := range d.Entries[before:] {
				require.Zero(r.t, e.DiscoveredCompleted)
				require.False(r.t, e.Retired)
				require.Negative(r.t, e.Duration)
			}
			require.Len(r.t, r.Dump(flight.DumpOptions{Entries: true, OnlyActive: true}).Entries, 2)
			require.NoError(r.t, r.Store().Set(r.t.Context(), "dumped", nil))
			require.NoError(r.t, r.WaitPending(r.t.Context()))
			for _, e := range r.Dump(everything).Entries {
				r.done(e, timing)
			}
		})
	})
}

// TestStatesAfterTimeout dumps when an operation that hung has ended the group. Operations that were done before stay so.
func TestStatesAfterTimeout(t *testing.T) {
	beside(t)
	eachCall(t, func(t *testing.T, timing bool, call func(*rank, colligo.Tensor) error) {
		beside(t)
		eachWith(t, 2, options{waits: true}, func(r *rank) {
			r.SetTiming(timing)
			x := full(r, 100, float32(1))
			for range before {
				require.NoError(r.t, call(r, x))
			}
			values[float32](r, x)
			r.meet("reduced")
			require.NoError(r.t, r.SetTimeout(time.Second))
			want := flight.Status{LastEnqueued: before, LastStarted: before, LastCompleted: before}
			if r.Rank() == 1 {
				r.stuck(call, x)
				if want.LastEnqueued++; r.hung(timing) == flight.Started {
					want.LastStarted++
				}
			}
			<-r.failed()
			require.NoError(r.t, r.WaitPending(r.t.Context()))
			d := r.Dump(everything)
			require.Equal(r.t, want, d.Status["0"])
			for _, e := range d.Entries[:before] {
				r.done(e, timing)
			}
			for _, e := range d.Entries[before:] {
				require.Equal(r.t, r.hung(timing), e.State)
				require.True(r.t, e.Retired)
				require.Zero(r.t, e.DiscoveredCompleted)
			}
		})
	})
}

// TestStatesOfMessages dumps while a receive waits for its sender, behind receives that are done.
func TestStatesOfMessages(t *testing.T) {
	timings(t, 2, options{}, func(r *rank, timing bool) {
		r.summed()
		x := full(r, 100, float32(r.Rank()))
		if r.Rank() == 0 {
			for range 3 {
				r.waited(r.SendAsync(r.ctx, x, 1, 0))
			}
			require.NoError(r.t, r.Store().Wait(r.t.Context(), "dumped"))
			r.waited(r.SendAsync(r.ctx, x, 1, 0))
			return
		}
		defer func() { require.NoError(r.t, r.Store().Set(r.t.Context(), "dumped", nil)) }() // else a failure holds rank 0
		messages := func() (es []flight.Entry) {
			for _, e := range r.entries() {
				if e.P2P {
					es = append(es, e)
				}
			}
			return es
		}
		for range 3 {
			r.waited(r.RecvAsync(r.ctx, x, 0, 0))
		}
		values[float32](r, x)
		w := r.RecvAsync(r.ctx, x, 0, 0)
		var es []flight.Entry
		for range 6000 { // the device may need a moment
			if es = messages(); es[3].State == r.hung(timing) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.Len(r.t, es, 4)
		for i, e := range es[:3] {
			require.Equal(r.t, uint64(i+1), e.P2PSeq)
			r.done(e, timing)
		}
		require.Equal(r.t, r.hung(timing), es[3].State)
		require.False(r.t, es[3].Retired)
		require.Zero(r.t, es[3].DiscoveredCompleted)
		require.Equal(r.t, flight.Status{LastEnqueued: 1, LastStarted: 1, LastCompleted: 1}, r.status(), "which counts collectives")
		require.NoError(r.t, r.Store().Set(r.t.Context(), "dumped", nil))
		r.waited(w)
		require.NoError(r.t, r.WaitPending(r.t.Context()))
		r.done(messages()[3], timing)
	})
}
