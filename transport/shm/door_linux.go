package shm

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// door is a rank's doorbell: the first line of its segment.
type door struct {
	rings  atomic.Uint32 // futex word: counts rings
	asleep atomic.Uint32 // 0, or the number of the sleep that the rank is about to begin or in
	core   atomic.Uint32 // 0, or one more than the CPU on which the rank was when it looked last; set where ranks share cores
}

// knock wakes the rank behind the door if it sleeps. The caller has stored what the rank waits for.
func (d *door) knock() {
	if sleep := d.asleep.Load(); sleep != 0 {
		d.ring()
		// Only now, and only that sleep: if this rank stops before it has rung, the next one that comes rings.
		d.asleep.CompareAndSwap(sleep, 0)
	}
}

// ring ends a sleep that has begun, or whose ring count was read before.
func (d *door) ring() {
	d.rings.Add(1)
	// Errors are impossible for an aligned word that is mapped; there is nobody to wake more than once.
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&d.rings)), futexWake, math.MaxInt32, 0, 0, 0)
}

// Operations of futex(2), in the form that works between processes.
const (
	futexWait = 0
	futexWake = 1
)

// napTime is the length of a sleep that is kept from Go's scheduler. One of which the scheduler hears makes threads of its own run: its
// monitor, and those that look for goroutines. They take a core from a rank that spins, whose peer then goes to sleep as well, and
// so on.
const napTime = 100 * time.Microsecond

// sleep returns when the count of rings is not seen any more, at the latest after limit (0: no limit), or early. With nap the
// scheduler does not hear of the sleep's beginning. Another of its processors must be there to run what else can run.
func (d *door) sleep(seen uint32, limit time.Duration, nap bool, scratch *unix.Timespec) {
	word := uintptr(unsafe.Pointer(&d.rings))
	if nap && (limit == 0 || limit > napTime) {
		*scratch = unix.NsecToTimespec(int64(napTime))
		_, _, errno := unix.RawSyscall6(unix.SYS_FUTEX, word, futexWait, uintptr(seen), uintptr(unsafe.Pointer(scratch)), 0, 0)
		if errno != unix.ETIMEDOUT {
			return
		}
		limit = max(0, limit-napTime)
	}
	var timeout unsafe.Pointer
	if limit > 0 {
		*scratch = unix.NsecToTimespec(int64(limit))
		timeout = unsafe.Pointer(scratch)
	}
	// A signal, a changed word and the timeout all mean the same to the caller: look again.
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, word, futexWait, uintptr(seen), uintptr(timeout), 0, 0)
}
