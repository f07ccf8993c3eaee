package streamorder

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
)

// TestLookBesideCall has the watchdog look at a queue while a call that waits for room keeps the order's lock. It finds that an operation
// is over, and since when the call waits.
func TestLookBesideCall(t *testing.T) {
	t.Parallel()
	device := simulated(t, nil)
	require.NoError(t, OnDevice(device, func(th cuda.Thread) error {
		o := New(device, 0, 1, nil)
		require.NoError(t, o.Open(th))
		s, err := th.NewStream(0)
		require.NoError(t, err)
		let, err := th.NewStream(0)
		require.NoError(t, err)
		at, err := th.Alloc(8)
		require.NoError(t, err)
		look := func() time.Duration {
			open, err := o.LookAt(th, Collectives)
			require.NoError(t, err)
			return open
		}
		goOn := func(to uint32) {
			require.NoError(t, th.Write32(let, at, to))
			require.NoError(t, th.Synchronize(s))
		}
		o.tails[Collectives].begun, o.tails[Collectives].stream, o.progress[Collectives].ran = true, s, 1
		require.NoError(t, errors.Join(th.Set32(at, 0, 1, s), th.Synchronize(s)))
		require.NoError(t, th.Wait32(s, at, 1))
		require.Zero(t, look(), "its event is recorded")
		require.Positive(t, look())
		require.NoError(t, th.Wait32(s, at, 2))
		require.NoError(t, th.Record(o.throttle.all[0], s))
		o.Lock()
		require.Positive(t, look())
		through := make(chan error)
		go func() {
			through <- OnDevice(device, func(th cuda.Thread) error { return o.await(th, o.throttle.all[0]) })
		}()
		for o.room.since.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
		require.Greater(t, look(), 50*time.Millisecond, "no operation is over")
		require.NoError(t, th.Write32(let, at, 1))
		require.NoError(t, th.Synchronize(let))
		time.Sleep(50 * time.Millisecond)
		for passed := false; !passed; { // the device, which takes its steps when it is asked
			passed, err = th.EventDone(o.watches[Collectives].event)
			require.NoError(t, err)
		}
		require.Greater(t, look(), 50*time.Millisecond, "what the call waits for is not over")
		o.room.queue.Store(int32(Sends))
		require.Less(t, look(), 50*time.Millisecond, "the event is over, and the call is of another queue")
		goOn(2)
		require.NoError(t, <-through)
		o.Unlock()
		return errors.Join(o.Free(th), th.DestroyStream(s), th.DestroyStream(let), th.Free(at))
	}))
}
