package shm

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filling copies payloads into the long slots of one peer, by the caches or past them.
//
// A store into a slot has to take the line from the cache of the core that has read it. Cores without a common cache may take two to three
// times as long for that as for a store that passes the caches. The reader then takes the line from memory, which takes it longer.
// With a common cache both are slower past it. Which cores have one is not asked. A hypervisor moves its guests between them,
// and does not tell.
//
// So a sender tries. A trial has three parts, each of as many payloads as the ring has long slots:
//
//  1. Payloads are copied in the way at hand, and timed.
//  2. Payloads are copied in the other way, so that part 3 finds the slots as that way leaves them.
//  3. Payloads are copied in the other way, and timed.
//
// Sender and receiver both count for how long their cores worked on the payloads of parts 1 and 3. The receiver adds its times to counts
// beside its credit. The sender changes the way when the other one took less in some trials in a row, that follow each other soon.
type filling struct {
	past   bool     // the way at hand
	slots  int      // of the ring
	pause  int      // payloads before the next trial
	wins   int      // trials in a row that the other way has won
	copied int      // payloads of the trial at hand
	last   uint64   // the last of its frames that was timed
	timed  [2]timed // its parts 1 and 3
	credit *credit  // where the receiver counts
}

// timed is what one part of a trial took.
type timed struct {
	bytes  int
	took   time.Duration // the sender
	before int64         // the receiver's count when the trial began
}

const (
	fillBytes  = 4 << 10   // of a payload; below, the way hardly matters
	trialBytes = 256 << 20 // of payloads between trials, at least
	trialShare = 200       // copies in the slower way cost about one part in so many of the time
	mostExtra  = 4         // of the time of the way at hand: what the other takes beyond it and this may be noise
	enoughWins = 2
)

// newFilling returns that of a ring with so many long slots. No trial is among the first payloads, for they have the system map pages.
func newFilling(slots int, credit *credit) *filling {
	return &filling{slots: slots, pause: slots, credit: credit}
}

// threadTime returns for how long cores have worked on the calling thread. Wall-clock time would not do. Where ranks outnumber cores, another
// rank often has the core in the middle of a copy, for longer than the copy takes. A goroutine that changes its thread in between spoils
// one trial. Go's scheduler is not told of the system call, for it could take that for an occasion. Without such a clock all times are
// zero, so no trial changes the way.
func threadTime() time.Duration {
	var t unix.Timespec
	_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano())
}

// copy copies the payload of a frame, of fillBytes or more. It returns the place that tells the receiver whether to time the payload. Of
// earlier frames, the receiver has given back those up to known.
func (f *filling) copy(dst, src []byte, frame, known uint64) (place uint8) {
	switch {
	case !nonTemporal || uintptr(unsafe.Pointer(unsafe.SliceData(dst)))%16 != 0:
		copy(dst, src)
		return inSlot
	case f.pause > 0:
		f.pause--
		fill(dst, src, f.past)
		return inSlot
	}
	past, place := f.next(known)
	if place == inSlot {
		fill(dst, src, past)
		return place
	}
	start := threadTime()
	fill(dst, src, past)
	f.took(place, frame, len(src), threadTime()-start)
	return place
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

// next returns the way of the next payload of a trial, and its place.
func (f *filling) next(known uint64) (past bool, place uint8) {
	switch f.copied / f.slots {
	case 0:
		f.copied++
		return f.past, inSlotTimed
	case 1:
		f.copied++
		return !f.past, inSlot
	case 2:
		f.copied++
		return !f.past, inSlotOther
	}
	if known >= f.last {
		f.judge()
	}
	return f.past, inSlot
}

// took takes the time for which this core worked on a payload that is timed.
func (f *filling) took(place uint8, frame uint64, bytes int, t time.Duration) {
	if f.copied == 1 {
		for i := range f.timed {
			f.timed[i] = timed{before: f.credit.worked[i].Load()}
		}
	}
	part := &f.timed[place-inSlotTimed]
	part.bytes += bytes
	part.took += t
	f.last = frame
}

// judge ends a trial whose payloads the receiver has given back. Parts whose bytes are too unlike are not compared.
func (f *filling) judge() {
	own, other := f.time(0), f.time(1)
	f.copied, f.pause = 0, trialBytes*f.slots/f.timed[0].bytes
	switch {
	case own == 0 || other == 0:
	case other >= own-own/16:
		f.wins = 0
		f.pause = max(f.pause, int(2*float64(f.slots)*trialShare*min(other/own-1, mostExtra)))
	case f.wins+1 < enoughWins:
		f.wins++
		f.pause = f.slots
	default:
		f.past, f.wins = !f.past, 0
	}
}

// time returns what a byte of a part took both sides, 0 if the part is not to be compared.
func (f *filling) time(part int) float64 {
	p, other := &f.timed[part], &f.timed[1-part]
	t := p.took + time.Duration(f.credit.worked[part].Load()-p.before)
	if p.bytes > 2*other.bytes || other.bytes > 2*p.bytes || t < 0 {
		return 0
	}
	return float64(t) / float64(p.bytes)
}
