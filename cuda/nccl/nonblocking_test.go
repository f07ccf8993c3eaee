package nccl

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// TestBusyCommunicator has launches on a communicator that does not block be in progress for some questions. The wait for a launch that is
// soon through allocates nothing, and lasts no sleep. One that lasts longer sleeps, and one that never ends has its limit.
func TestBusyCommunicator(t *testing.T) {
	busy, asked := 0, 0
	var end Result
	of := func(CommHandle) Result { return Success }
	l, err := New("busy", Table{
		GetVersion:     func(v *int32) Result { *v = newest; return Success },
		GetErrorString: func(r Result) string { return r.String() },
		CommInitRankConfig: func(c *CommHandle, _ int, _ *UniqueID, _ int, _ *RawConfig) Result {
			*c = 1
			return InProgress
		},
		CommGetAsyncError: func(_ CommHandle, r *Result) Result {
			if asked++; asked <= busy {
				*r = InProgress
			} else {
				*r = end
			}
			return Success
		},
		CommDestroy: of,
		AllReduce: func(cuda.Pointer, cuda.Pointer, int, DType, Op, CommHandle, cuda.Stream) Result {
			asked = 0
			return InProgress
		},
	})
	require.NoError(t, err)
	c, err := l.NewComm(new(UniqueID), 0, 2, Config{NonBlocking: true})
	require.NoError(t, err)
	r, err := c.Reduction(colligo.Float32, colligo.KindSum)
	require.NoError(t, err)
	call := func() error { return c.AllReduce(0, 0, 1, r, 0) }

	runtime.LockOSThread() // as a caller on a device is
	defer runtime.UnlockOSThread()
	busy = 10
	require.Zero(t, testing.AllocsPerRun(100, func() { err = errors.Join(err, call()) }))
	require.NoError(t, err)
	require.Equal(t, busy+1, asked)
	end = RemoteError
	require.ErrorContains(t, call(), "ncclAllReduce: nccl: in the background: NCCL error: ncclRemoteError")
	end, busy, c.Limit = Success, 1<<60, 20*time.Millisecond
	begin := time.Now()
	require.ErrorContains(t, call(), "the communicator is in progress: context deadline exceeded")
	require.GreaterOrEqual(t, time.Since(begin), c.Limit)
	busy, c.Limit = asked, time.Minute // about as long again
	require.NoError(t, call())
	require.NoError(t, c.Close())
}
