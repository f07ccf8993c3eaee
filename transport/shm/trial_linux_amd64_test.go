package shm

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReceiverCounts has a receiver work longer on what was copied by the caches, and then on what was copied past them. Its sender is told,
// and changes the way.
func TestReceiverCounts(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, in := deep(t, nil)
	f, r, p := out.out[0].filling, &in.in[0], counted(thisLong)
	work := func(d time.Duration) {
		for start := threadTime(); threadTime()-start < d; {
		}
	}
	for _, slow := range []bool{false, true} {
		for n := 0; f.past == slow; n++ {
			require.Less(t, n, 4*trialBytes/thisLong, "past the caches: %v", f.past)
			put(t, out, 0, p)
			_, err := in.Head(0)
			require.NoError(t, err)
			place, past := r.trial, f.past != (r.trial == inSlotOther)
			got, _, err := in.Body(0, nil)
			require.NoError(t, err)
			require.True(t, bytes.Equal(p, got))
			if place == 0 {
				in.Release(0)
				continue
			}
			count, least := &r.worked[place-inSlotTimed], time.Duration(0)
			if past == slow {
				least = time.Millisecond
			}
			before := count.Load()
			work(least)
			in.Release(0)
			require.GreaterOrEqual(t, count.Load()-before, int64(least))
		}
	}
	before := r.worked[0].Load() + r.worked[1].Load()
	for range trialBytes/thisLong + mostExtra*2*defaultSlots*trialShare {
		put(t, out, 0, p)
		_, err := in.Head(0)
		require.NoError(t, err)
		in.Release(0)
	}
	require.Equal(t, before, r.worked[0].Load()+r.worked[1].Load(), "payloads that nobody asked for")
}
