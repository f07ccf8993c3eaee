package shm

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filling copies payloads into the slots of one peer, by the caches or past them.
//
// A store into a slot has to take the line from the cache of the core that has read it. Cores without a common cache take two to three times
// as long for that as for a store that passes the caches. The reader then takes the line from memory. With a common cache it is
// the other way round. Which cores have one is not asked. A hypervisor moves its guests between them, and does not tell.
//
// So a sender tries. Now and then it copies one payload in each way, and compares how long the core worked on each. It changes the way when
// the other one was faster some times in a row, in trials that follow each other soon.
type filling struct {
	past   bool          // the way at hand
	later  bool          // in the trial at hand the other way comes second
	wins   int           // trials in a row that the other way has won
	pause  int           // payloads before the next trial
	length int           // of the first payload of the trial at hand; 0 if there is none
	first  time.Duration // for which a core worked on it
}

const (
	fillBytes  = 4 << 10 // of a payload; below, the way hardly matters
	trialPause = 1024    // payloads: a trial costs one payload in the slower way
	winPause   = 2
	enoughWins = 3
)

// threadTime returns for how long cores have worked on the calling thread. Wall-clock time would not do. Where ranks outnumber cores, another
// rank often has the core in the middle of a copy, for longer than the copy takes. A goroutine that changes its thread in between spoils
// one trial. Go's scheduler is not told of the system call, for it could take that for an occasion. Without such a clock all times are
// zero, so no trial changes the way.
func threadTime() time.Duration {
	var t unix.Timespec
	_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano())
}

// copy copies a payload of fillBytes or more.
func (f *filling) copy(dst, src []byte) {
	switch {
	case !nonTemporal || uintptr(unsafe.Pointer(unsafe.SliceData(dst)))%16 != 0:
		copy(dst, src)
	case f.pause > 0:
		f.pause--
		fill(dst, src, f.past)
	default:
		start := threadTime()
		fill(dst, src, f.next())
		f.took(len(src), threadTime()-start)
	}
}

// fill copies a payload of 64 bytes or more in a way.
func fill(dst, src []byte, past bool) {
	n := 0
	if past {
		n = len(src) &^ 63
		copyPast(unsafe.SliceData(dst), unsafe.SliceData(src), n)
	}
	copy(dst[n:], src[n:])
}

// next returns the way of the next payload of the trial.
func (f *filling) next() (past bool) {
	second := f.length > 0
	return f.past != (second == f.later)
}

// took takes the time for which a core worked on a payload of the trial at hand. Payloads of lengths too unlike are not compared.
func (f *filling) took(length int, t time.Duration) {
	before := f.length
	if before == 0 {
		f.length, f.first = length, t
		return
	}
	f.length, f.pause = 0, trialPause
	if before > 2*length || length > 2*before {
		return
	}
	other, own := f.first*time.Duration(length), t*time.Duration(before) // as if both were as long
	if f.later {
		other, own = own, other
	}
	f.later = !f.later
	if other >= own-own/8 {
		f.wins = 0
		return
	}
	f.pause = winPause
	if f.wins++; f.wins == enoughWins {
		f.past, f.wins, f.pause = !f.past, 0, trialPause
	}
}
