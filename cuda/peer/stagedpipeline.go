package peer

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// openTransfers bounds the operations of a line that its worker has not begun.
const openTransfers = 64

// pipeline carries the operations of one queue, in their order, one after the other. Its rounds are numbered from 1, and take
// the slots in turn. For each round the streams are given, by who holds backend.mu,
//
//	down   wait until the slot's way up before is over; copies; arrived = number
//	up     wait until computed is the number; copies; record that the slot's way up is over
//
// and the worker, when arrived is the number, has the CPU compute and sets computed.
type pipeline struct {
	b        *backend
	st       *staging
	queue    queue
	slots    [slotDepth]slot
	waiting  chan *transfer
	begun    bool   // under backend.mu, as is given
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

// wordIn returns the i-th word that shares its cache line with no other.
func wordIn(h *cuda.Host, i int) word {
	return word{(*uint32)(unsafe.Pointer(&h.Bytes[i*cacheLine])), h.Device + cuda.Pointer(i*cacheLine)}
}

// slot is pinned memory for one round.
type slot struct {
	bytes []byte
	at    cuda.Pointer
	free  cuda.Event // what went up has left
	used  bool       // the event was recorded
}

// What a worker is doing.
const (
	atRest int32 = iota
	awaitsDevice
	onCPU
)

// where says what a line waits for, in words that follow "waits".
func (l *pipeline) where() string {
	switch l.doing.Load() {
	case awaitsDevice:
		return "for what is before it on its own device"
	case onCPU:
		return "for the peers on the CPU"
	}
	return "for the device to copy"
}

// begin makes streams and events at the first operation. The caller holds b.mu.
func (l *pipeline) begin(t cuda.Thread) error {
	if l.begun {
		return nil
	}
	errs := []error{l.b.streams.down[l.queue].make(t), l.b.streams.up[l.queue].make(t)}
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

// give puts a round on the streams. The caller holds b.mu.
func (l *pipeline) give(t cuda.Thread, x *transfer, round int) error {
	l.given++
	down, up := l.b.streams.down[l.queue].stream, l.b.streams.up[l.queue].stream
	s, ins, outs := l.slot(l.given), x.down(round), x.up(round)
	if s.used {
		if err := t.WaitEvent(down, s.free); err != nil {
			return err
		}
	}
	for _, p := range ins {
		if p.bytes == 0 {
			continue
		}
		if err := t.Copy(s.at+cuda.Pointer(p.off), p.at, p.bytes, down); err != nil {
			return err
		}
	}
	if err := first(t.Write32(down, l.arrived.at, l.given), t.Wait32(up, l.computed.at, l.given)); err != nil {
		return err
	}
	for _, p := range outs {
		if p.bytes == 0 {
			continue
		}
		if err := t.Copy(p.at, s.at+cuda.Pointer(p.off), p.bytes, up); err != nil {
			return err
		}
	}
	s.used = true
	return first(t.Record(s.free, up), l.b.weigh(t, up, 4+max(len(ins), len(outs))))
}

// slot returns that of a round.
func (l *pipeline) slot(number uint32) *slot { return &l.slots[number%slotDepth] }

// work carries operations until one fails or nothing more is to be carried.
func (l *pipeline) work() {
	for {
		select {
		case <-l.st.over:
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

// carry has the CPU compute the rounds of an operation, and those that only peers have: of splits every rank knows its own.
// The device is told of the last one when all are over, for a rank whose device is done may leave.
func (l *pipeline) carry(x *transfer) error {
	l.doing.Store(onCPU)
	if err := l.st.aside.SetTimeout(l.b.limit()); err != nil {
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

// await waits until the round at hand has arrived. It calls no driver: somebody in this process may hold its lock until the
// device is idle.
func (l *pipeline) await() error {
	l.doing.Store(awaitsDevice)
	for n := 0; int32(atomic.LoadUint32(l.arrived.uint32)-l.carried) < 0; n++ {
		select {
		case <-l.st.over:
			return errOver
		default:
			pause(n)
		}
	}
	return nil
}

// release ends all waiting of the line, of operations yet to be given, too. The worker is gone.
func (l *pipeline) release() {
	atomic.StoreUint32(l.computed.uint32, l.carried+1<<30)
}

// explain is the error of an operation that the CPU could not carry out.
func (l *pipeline) explain(x *transfer, cause error) error {
	e := &colligo.OpError{Group: l.b.group.Name(), Op: x.Coll.String(), Seq: x.Seq, What: x.what(), Rank: l.b.rank,
		Peer: colligo.NoRank, Lane: colligo.NoRank, Step: colligo.NoRank, Err: cause}
	var aside *colligo.OpError
	if errors.As(cause, &aside) {
		e.Peer, e.Err = aside.Peer, aside.Err
	}
	return e
}
