package peer

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	seam "github.com/colligo-go/colligo/pg/backend"
)

// watchdog looks at the device from time to time, for the sake of operations that nobody waits for on the host. It finds
// operations that take too long, and messages other than those that are received.
type watchdog struct {
	*launcher
	messages *messages
	limit    func() time.Duration // how long an operation may stay unfinished
	flags    *cuda.Host           // a copy of the words of the heap
	told     *cuda.Host           // which kernels write: which ranks they waited for, and which mean other memory
	blind    bool                 // it cannot look at the heap any more
}

// suspicion is how long an operation may stay unfinished before the words of messages are compared.
const suspicion = 2 * time.Second

// briefly bounds the wait for a device or a lock that other work may keep.
const briefly = streamorder.Patience / 10

// look returns an error when operations take too long, or when the device is broken. It also does when a message is not the
// one that is received, and when ranks mean different registered memory.
func (w *watchdog) look(t cuda.Thread) error {
	if err := w.misplaced(); err != nil {
		return err
	}
	for q := range streamorder.NumQueues {
		open, err := w.order.LookAt(t, q)
		if err != nil {
			return err
		}
		if w.order.Failure.Err() != nil {
			continue
		}
		if open > w.limit() {
			return w.timedOut(t, q)
		}
		if q == streamorder.Receives && open > min(suspicion, w.limit()/2) {
			if err := w.mismatch(w.read(t)); err != nil {
				return err
			}
		}
	}
	return nil
}

// timedOut stops the kernels and says which ranks they waited for.
func (w *watchdog) timedOut(t cuda.Thread, q streamorder.Queue) error {
	seen := w.read(t) // before the abort makes all words alike
	w.order.Failure.Raise()
	late := w.lateInKernels()
	if late == nil {
		if err := w.mismatch(seen); err != nil && q == streamorder.Receives {
			return err
		}
		late = w.lateInStreams(q, seen)
	}
	limit, who, says := w.limit(), "which peer is late, the device does not tell", ""
	if late != nil {
		says = "it waits for rank " + joinRanks(late)
		who = says
	}
	err := fmt.Errorf("the device of rank %d is not done after %v: %s: %w", w.rank, limit, who, colligo.ErrTimeout)
	return &seam.Late{Coll: q.Coll(), After: limit, Says: says, Err: err}
}

// word returns a word that kernels write. Words from 1 say by rank that a kernel waited for the rank when it was stopped. The
// words behind say by rank that it means another place of registered memory.
func (w *watchdog) word(i int) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&w.told.Bytes[4*i])))
}

// lateInKernels returns the ranks that kernels waited for when they were stopped: the kernels tell so themselves.
func (w *watchdog) lateInKernels() (late []int) {
	for n := 0; n < 1000 && late == nil; {
		n = streamorder.Pause(n)
		for q := range w.size {
			if w.word(1+q) != 0 {
				late = append(late, q)
			}
		}
	}
	return late
}

// misplaced returns an error if a kernel has found that ranks mean different places of registered memory.
func (w *watchdog) misplaced() error {
	for q := range w.size {
		if w.word(1+symheap.MaxRanks+q) != 0 {
			return fmt.Errorf("rank %d and rank %d called a collective for different places or lengths of registered memory: %w",
				w.rank, q, colligo.ErrMismatch)
		}
	}
	return nil
}

// lateInStreams returns the ranks that streams wait for, as far as words tell.
func (w *watchdog) lateInStreams(q streamorder.Queue, seen *words) (late []int) {
	if seen == nil || !w.order.LockWithin(briefly) {
		return nil
	}
	defer w.order.Unlock()
	if q == streamorder.Collectives {
		return w.late(seen)
	}
	return w.messages.late(q, seen)
}

// mismatch compares messages that have arrived with the receives that are to take them.
func (w *watchdog) mismatch(seen *words) error {
	if seen == nil || !w.order.LockWithin(briefly) {
		return nil
	}
	defer w.order.Unlock()
	return w.messages.mismatch(seen)
}

func joinRanks(all []int) string {
	s := ""
	for i, q := range slices.Compact(all) {
		if i > 0 {
			s += " and rank "
		}
		s += fmt.Sprint(q)
	}
	return s
}

// words are the flag words of this rank's heap as the host last saw them, nil if it could not look.
type words struct {
	at int // of the first in the heap
	b  []byte
}

// get returns the word at an offset in the heap.
func (w *words) get(at int) uint32 { return binary.LittleEndian.Uint32(w.b[at-w.at:]) }

// read copies the words to the host. A device whose queues are all full of streams that wait may not get to the copy; then
// there is nothing to see.
func (w *watchdog) read(t cuda.Thread) *words {
	s, at := w.order.Setup.Stream, w.layout.Words
	if w.blind || t.Copy(w.flags.Device, w.heap.Address(at), len(w.flags.Bytes), s) != nil {
		return nil
	}
	for n, end := 0, time.Now().Add(briefly); ; {
		done, err := t.StreamDone(s)
		if done && err == nil {
			return &words{at, w.flags.Bytes}
		}
		if err != nil || time.Now().After(end) {
			w.blind = true // the copy may still come
			return nil
		}
		n = streamorder.Pause(n)
	}
}
