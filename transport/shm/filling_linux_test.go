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

// driver has a filling copy payloads, and plays the receiver, who gives a payload back, and counts it, when the ring is full.
type driver struct {
	filling
	counts credit
	ring   []copied
	frame  uint64
}

// copied is what the receiver adds to its counts for a payload.
type copied struct {
	place uint8
	works time.Duration
}

func newDriver(slots int) *driver {
	d := &driver{ring: make([]copied, slots)}
	d.filling = *newFilling(slots, &d.counts)
	return d
}

// drive copies payloads of some lengths. The function says for how long sender and receiver work on one. It returns how many payloads
// were copied past the caches.
func (d *driver) drive(payloads int, length func(i int) int, takes func(past bool, i int) (sender, receiver time.Duration)) (past int) {
	for i := range payloads {
		slot := &d.ring[d.frame%uint64(len(d.ring))]
		if slot.place >= inSlotTimed {
			d.counts.worked[slot.place-inSlotTimed].Add(int64(slot.works))
		}
		d.frame++
		way, place := d.past, uint8(inSlot)
		if d.pause > 0 {
			d.pause--
		} else {
			way, place = d.next(d.frame - min(d.frame, uint64(len(d.ring))))
		}
		sender, receiver := takes(way, i)
		if place != inSlot {
			d.took(place, d.frame, length(i), sender)
		}
		*slot = copied{place, receiver}
		if way {
			past++
		}
	}
	return past
}

// costs returns a function for drive where one side works longer in one way, and where another program has the core now and then.
func costs(caches, past time.Duration) func(bool, int) (sender, receiver time.Duration) {
	return func(p bool, i int) (time.Duration, time.Duration) {
		d := caches
		if p {
			d = past
		}
		if i%1009 == 50 {
			d += time.Millisecond
		}
		return d, 0
	}
}

const (
	manyPayloads = 1 << 20
	thisLong     = 64 << 10
)

func sameLength(int) int { return thisLong }

// TestFilling has a sender find the faster way, keep it while single payloads take long, and change it when the other becomes faster.
func TestFilling(t *testing.T) {
	for _, slots := range []int{2, 8, 32} {
		d := newDriver(slots)
		require.Less(t, d.drive(manyPayloads, sameLength, costs(1000, 2000)), manyPayloads/50)
		require.False(t, d.past)
		require.Greater(t, d.drive(manyPayloads, sameLength, costs(2000, 1000)), manyPayloads-manyPayloads/20)
		require.True(t, d.past)
		require.Less(t, d.drive(manyPayloads, sameLength, costs(1000, 2000)), manyPayloads/20)
		require.False(t, d.past)
		require.Less(t, d.drive(manyPayloads, sameLength, costs(1000, 950)), manyPayloads/10, "it is not worth it")
		require.False(t, d.past)
		require.Less(t, newDriver(slots).drive(manyPayloads, sameLength, costs(0, 0)), manyPayloads/10, "there is no clock")
	}
	d := newDriver(8)
	require.GreaterOrEqual(t, d.drive(100, sameLength, costs(2000, 1000)), 30, "it is found soon")
	require.True(t, d.past)
}

// TestFillingCountsReceiver has the way be chosen by what both sides take.
func TestFillingCountsReceiver(t *testing.T) {
	sides := func(sender, receiver time.Duration) func(bool, int) (time.Duration, time.Duration) {
		return func(past bool, _ int) (time.Duration, time.Duration) {
			if past {
				return sender, receiver
			}
			return 3000, 3000
		}
	}
	d := newDriver(8)
	require.Less(t, d.drive(manyPayloads, sameLength, sides(2000, 5000)), manyPayloads/50, "what the sender saves takes the receiver longer")
	d.drive(manyPayloads, sameLength, sides(3500, 1500))
	require.True(t, d.past)
}

// TestFillingFillsSlotsFirst has each slot be filled once in the other way before a payload in that way is timed. The first one after a
// change takes longer than any other.
func TestFillingFillsSlotsFirst(t *testing.T) {
	d, last, since := newDriver(8), false, 0
	d.drive(manyPayloads, sameLength, func(past bool, _ int) (sender, receiver time.Duration) {
		if past != last {
			last, since = past, 0
		}
		switch since++; {
		case since <= d.slots:
			return 5000, 0
		case past:
			return 2000, 0
		default:
			return 3000, 0
		}
	})
	require.True(t, d.past)
}

// TestFillingLengths compares parts by their bytes, and does not compare those whose bytes are too unlike.
func TestFillingLengths(t *testing.T) {
	growing := newDriver(8)
	past := growing.drive(manyPayloads, func(i int) int { return 8 << 10 << (i / 8 % 8) }, costs(2000, 1000))
	require.Less(t, past, manyPayloads/20, "no part is like another")
	long := func(i int) int { return (2 + i/8%3) * (4 << 10) }
	perByte := func(caches, past time.Duration) func(bool, int) (time.Duration, time.Duration) {
		return func(p bool, i int) (time.Duration, time.Duration) {
			s, r := costs(caches, past)(p, i)
			return s * time.Duration(long(i)), r
		}
	}
	d := newDriver(8)
	require.Less(t, d.drive(manyPayloads, long, perByte(2000, 1950)), manyPayloads/20, "long payloads take longer")
	d.drive(manyPayloads, long, perByte(2000, 1000))
	require.True(t, d.past)
}

// TestFillingShare has trials cost little of the time where the other way takes ten times as long.
func TestFillingShare(t *testing.T) {
	for _, slots := range []int{2, 8, 32} {
		d := newDriver(slots)
		past := d.drive(manyPayloads, sameLength, costs(1000, 10000))
		require.Less(t, 9*past, manyPayloads/50)
	}
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
