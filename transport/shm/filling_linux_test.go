package shm

import (
	"bytes"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestFill copies payloads of many lengths from every offset in both ways, and changes no byte beside them.
func TestFill(t *testing.T) {
	memory := make([]byte, 20<<10)
	for i := range memory {
		memory[i] = byte(i*7 + i>>8)
	}
	for _, n := range []int{64, 65, 127, 128, fillBytes, fillBytes + 1, 9<<10 + 63} {
		for off := range 64 {
			for _, past := range []bool{false, nonTemporal} {
				dst := make([]byte, 16<<10)
				at := int(-uintptr(unsafe.Pointer(&dst[0]))&15) + 64
				fill(dst[at:at+n], memory[off:off+n], past)
				require.True(t, bytes.Equal(memory[off:off+n], dst[at:at+n]), "%d bytes from offset %d, past %v", n, off, past)
				clear(dst[at : at+n])
				require.Equal(t, make([]byte, len(dst)), dst)
			}
		}
	}
}

// filled drives a filling with payloads whose copies take what a function says, and returns how many of them were copied past the caches.
func filled(f *filling, payloads int, length func(i int) int, takes func(past bool, i int) time.Duration) (past int) {
	for i := range payloads {
		way := f.past
		if f.pause > 0 {
			f.pause--
		} else {
			way = f.next()
			f.took(length(i), takes(way, i))
		}
		if way {
			past++
		}
	}
	return past
}

// TestFilling has a sender find the faster way, keep it while single payloads take long, and change it when the other becomes faster.
func TestFilling(t *testing.T) {
	const many = 100 * trialPause
	same := func(int) int { return 32 << 10 }
	costs := func(caches, past time.Duration) func(bool, int) time.Duration {
		return func(p bool, i int) time.Duration {
			d := caches
			if p {
				d = past
			}
			if i%97 == 50 {
				d += time.Millisecond // another program has the core
			}
			return d
		}
	}
	var f filling
	require.Less(t, filled(&f, many, same, costs(1000, 2000)), many/50)
	require.False(t, f.past)
	require.Greater(t, filled(&f, many, same, costs(2000, 1000)), many-many/20)
	require.True(t, f.past)
	require.Less(t, filled(&f, many, same, costs(1000, 2000)), many/20)
	require.False(t, f.past)
	require.Less(t, filled(&f, many, same, costs(1000, 950)), many/50, "it is not worth it")
	require.False(t, f.past)
	filled(&f, many, func(i int) int { return 8 << 10 << (i % 2 * 2) }, costs(2000, 1000))
	require.False(t, f.past, "no payload is like the one before")
	long := func(i int) int { return 8 << 10 << (i % 2) }
	filled(&f, many, long, func(past bool, i int) time.Duration { return costs(2000, 1900)(past, i) * time.Duration(long(i)) })
	require.False(t, f.past, "long payloads take longer")
	filled(&f, many, long, func(past bool, i int) time.Duration { return costs(2000, 1000)(past, i) * time.Duration(long(i)) })
	require.True(t, f.past)
	f = filling{}
	require.Less(t, filled(&f, many, same, func(bool, int) time.Duration { return 0 }), many/50, "there is no clock")
	f = filling{}
	require.GreaterOrEqual(t, filled(&f, 3*(2+winPause)+2, same, costs(2000, 1000)), 5, "it is found soon")
	require.True(t, f.past)
}

// TestThreadTime counts the time in which a thread works, and not that in which it does not have a core.
func TestThreadTime(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, began := threadTime(), time.Now()
	time.Sleep(50 * time.Millisecond)
	require.Less(t, threadTime()-start, 25*time.Millisecond)
	start = threadTime()
	for threadTime()-start < 2*time.Millisecond {
		require.Less(t, time.Since(began), time.Minute, "it does not advance")
	}
}
