package staged

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
)

// OpenTransfers bounds the operations of a pipeline that its worker has not begun.
const OpenTransfers = 64

// pipeline carries the operations of one queue, in their order, one after the other. Its rounds are numbered from 1, and use
// the slots in rotation. For each round two streams get commands, with the order's lock held:
//
//	down   wait until the slot's way up before is over; copies; arrived = number
//	up     wait until computed is the number; copies; record that the slot's way up is over
//
// When arrived is the number, the worker has the CPU compute, and then sets computed.
type pipeline struct {
	b        *Backend
	queue    streamorder.Queue
	down, up streamorder.Stream
	slots    [slotDepth]slot
	waiting  chan *transfer
	begun    bool   // under the order's lock, as is given
	given    uint32 // number of the last round that the streams were given
	carried  uint32 // the worker's: number of the last round it has seen
	arrived  word   // written by the device
	computed word   // written by the host
	doing    atomic.Int32
}

// word is a word of pinned memory.
type word struct {
	*uint32
	at cuda.Pointer
}

// wordIn returns the i-th word of pinned memory; it shares its cache line with no other.
func wordIn(h *cuda.Host, i int) word {
	return word{(*uint32)(unsafe.Pointer(&h.Bytes[i*cacheLine])), h.Device + cuda.Pointer(i*cacheLine)}
}

// slot is pinned memory for one round.
type slot struct {
	bytes []byte
	at    cuda.Pointer
	free  cuda.Event // the copies up to the device are done
	used  bool       // the event was recorded
}

// newPipeline makes the pipeline of a queue, whose slots begin at an offset in the host memory.
func (b *Backend) newPipeline(q streamorder.Queue, at, bytes int) *pipeline {
	l := &pipeline{b: b, queue: q, arrived: wordIn(b.host, 2*int(q)), computed: wordIn(b.host, 2*int(q)+1),
		waiting: make(chan *transfer, OpenTransfers)}
	for i := range l.slots {
		from := at + i*bytes
		l.slots[i].bytes, l.slots[i].at = b.host.Bytes[from:from+bytes:from+bytes], b.host.Device+cuda.Pointer(from)
	}
	return l
}

// The states of a worker.
const (
	atRest int32 = iota
	awaitsDevice
	onCPU
)

// where names the thing that a pipeline waits for, in words that follow "waits".
func (l *pipeline) where() string {
	switch l.doing.Load() {
	case awaitsDevice:
		return "for what is before it on its own device"
	case onCPU:
		return "for the peers on the CPU"
	}
	return "for the device to copy"
}

// begin makes streams and events at the first operation. The caller holds the order's lock.
func (l *pipeline) begin(t cuda.Thread) error {
	if l.begun {
		return nil
	}
	errs := []error{l.b.Make(t, &l.down), l.b.Make(t, &l.up)}
	for i := range l.slots {
		var err error
		l.slots[i].free, err = t.NewEvent(false)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l.begun = true
	return nil
}

// enqueue puts a round on the streams. The caller holds the order's lock.
func (l *pipeline) enqueue(t cuda.Thread, x *transfer, round int) error {
	l.given++
	s, ins, outs := l.slot(l.given), x.withFactor(x.down(round), round), x.up(round)
	c := streamorder.On(t)
	if s.used {
		c.WaitEvent(l.down.Stream, s.free)
	}
	for _, p := range ins {
		if p.bytes > 0 {
			c.Copy(s.at+cuda.Pointer(p.off), p.at, p.bytes, l.down.Stream)
		}
	}
	c.Write32(l.down.Stream, l.arrived.at, l.given)
	c.Wait32(l.up.Stream, l.computed.at, l.given)
	for _, p := range outs {
		if p.bytes > 0 {
			c.Copy(p.at, s.at+cuda.Pointer(p.off), p.bytes, l.up.Stream)
		}
	}
	if c.Err != nil {
		return c.Err
	}
	s.used = true
	if err := t.Record(s.free, l.up.Stream); err != nil {
		return err
	}
	return l.b.Throttle(t, l.up.Stream, 4+max(len(ins), len(outs)))
}

// slot returns that of a round.
func (l *pipeline) slot(number uint32) *slot { return &l.slots[number%slotDepth] }

// work carries operations until one fails or nothing more is to be carried.
func (l *pipeline) work() {
	for {
		select {
		case <-l.b.over:
			return
		case x := <-l.waiting:
			err := l.carry(x)
			l.doing.Store(atRest)
			if errors.Is(err, errOver) {
				return
			}
			if err != nil {
				l.b.group.Fail(l.explain(x, err))
				return
			}
		}
	}
}

var errOver = errors.New("nothing is carried any more")

// carry has the CPU compute the rounds of an operation, and the rounds that only peers have (invariants 3 and 4).
func (l *pipeline) carry(x *transfer) error {
	l.doing.Store(onCPU)
	if err := l.b.dup.SetTimeout(l.b.limit()); err != nil {
		return err
	}
	rounds, err := l.compare(x)
	if err != nil {
		return err
	}
	for i := range rounds {
		sl := &l.slots[0] // nothing of it, in rounds that only peers have
		if i < x.rounds {
			l.carried++
			if err := l.await(); err != nil {
				return err
			}
			sl = l.slot(l.carried)
		}
		l.doing.Store(onCPU)
		if err := l.compute(x, i, sl); err != nil {
			return err
		}
		if i < x.rounds-1 || i == rounds-1 {
			l.doing.Store(atRest)
			atomic.StoreUint32(l.computed.uint32, l.carried)
		}
	}
	return nil
}

// await waits until the round at hand has arrived. It calls no driver (invariant 1).
func (l *pipeline) await() error {
	l.doing.Store(awaitsDevice)
	for n := 0; int32(atomic.LoadUint32(l.arrived.uint32)-l.carried) < 0; {
		select {
		case <-l.b.over:
			return errOver
		default:
			n = streamorder.Pause(n)
		}
	}
	return nil
}

// release ends all waiting of the pipeline, of operations yet to be given, too. The worker is gone.
func (l *pipeline) release() {
	atomic.StoreUint32(l.computed.uint32, l.carried+1<<30)
}

// free gives the events back.
func (l *pipeline) free(t cuda.Thread) error {
	var errs []error
	for i := range l.slots {
		if e := l.slots[i].free; e != 0 {
			errs = append(errs, t.DestroyEvent(e))
		}
	}
	return errors.Join(errs...)
}

// explain is the error of an operation that the CPU could not carry out. The peer at fault is that of the CPU's error.
func (l *pipeline) explain(x *transfer, cause error) error {
	e := colligo.NewOpError(l.b.group.Name(), x.Coll.String(), x.Seq, l.b.rank, cause)
	e.What = x.what()
	var inner *colligo.OpError
	if errors.As(cause, &inner) {
		e.Peer, e.Err = inner.Peer, inner.Err
	}
	return e
}
