package peer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// staging carries the operations of a group through pinned host memory and the transport that links its ranks on the CPU,
// for ranks whose GPUs cannot reach one another. A tensor travels in rounds, each as large as a slot of pinned memory:
//
//	down   copies from the device into the slot
//	       the CPU's collective on the slot, of a group of its own, so that its order is not the program's
//	up     copies from the slot to the device
//
// While the CPU has one round the next is on its way down and the last on its way up. Both algorithms are enqueued whole, as
// everything else is, and meet the CPU at words of host memory: the host calls no driver for an operation on its way.
//
// A sum is what the CPU makes of each round: the same on all ranks and in every run. Where the order of summation shows it
// is that of the whole tensor on the CPU if one round has all of it, which is up to 8 MiB by default.
type staging struct {
	why       string
	aside     *pg.Group
	pipelines [numQueues]*pipeline
	host      *cuda.Host    // the slots of all lines, behind a page of words
	over      chan struct{} // closed when nothing is to be carried any more
	once      sync.Once
	workers   sync.WaitGroup
}

const (
	slotDepth   = 3       // slots of a line: one on its way down, one with the CPU, one on its way up
	mostSlot    = 8 << 20 // bytes
	cacheLine   = 64      // bytes between words, and between full pieces of a slot
	stagedWords = 4 << 10 // bytes of host memory before the slots
)

// openStaged makes what staging needs, on all ranks together.
func (b *backend) openStaged(ctx context.Context, t cuda.Thread, why string) (err error) {
	b.sayStaged(why)
	st := &staging{why: why, over: make(chan struct{})}
	if err := st.pin(b, t); err != nil {
		return err
	}
	b.staging = st
	if b.page == nil {
		if b.page, err = t.AllocHost(readBytes); err != nil {
			return err
		}
	}
	if b.abort == nil {
		if b.abort, err = t.AllocHost(abortBytes); err != nil {
			return err
		}
		clear(b.abort.Bytes)
	}
	// Who could not pin its memory has failed the group by then, and nobody waits for it any longer.
	if err := b.group.Barrier(ctx); err != nil {
		return fmt.Errorf("before staging: %w", err)
	}
	if st.aside, err = b.group.Aside(ctx, b.limit()); err != nil {
		return fmt.Errorf("a group to stage with: %w", err)
	}
	for _, l := range st.pipelines {
		st.workers.Go(l.work)
	}
	b.args = &arguments{} // none are needed, but from here on there is something to end
	b.startWatch()
	return b.group.Err()
}

// pin takes the host memory and makes the lines. That of the collectives has half of it.
func (st *staging) pin(b *backend, t cuda.Thread) (err error) {
	memory, least := b.options.Memory, 2*b.size*cacheLine
	if memory < 4*slotDepth*least {
		return fmt.Errorf("%d bytes of pinned memory are too few for %d ranks; %d would do", memory, b.size, 4*slotDepth*least)
	}
	var slots [numQueues]int
	bytes := stagedWords
	for q := range slots {
		slots[q] = memory / (4 * slotDepth)
		if queue(q) == collectives {
			slots[q] = memory / (2 * slotDepth)
		}
		slots[q] = down(min(slots[q], mostSlot), cacheLine)
		bytes += slotDepth * slots[q]
	}
	if st.host, err = t.AllocHost(bytes); err != nil {
		return fmt.Errorf("host memory to stage in (peer.Options.Memory asks for less): %w", err)
	}
	clear(st.host.Bytes[:stagedWords])
	at := stagedWords
	for q := range st.pipelines {
		st.pipelines[q] = st.newPipeline(b, queue(q), at, slots[q])
		at += slotDepth * slots[q]
	}
	return nil
}

// sayStaged tells why, once for the group.
func (b *backend) sayStaged(why string) {
	log := b.group.Log()
	say := log.Warn
	if why == forced {
		say = log.Info
	}
	if b.rank == 0 {
		say(why+": staging through host memory over "+b.group.Transport(), "group", b.group.Name(), "rank", b.rank)
	}
}

// newPipeline makes the line of a queue, whose slots begin at an offset in the host memory.
func (st *staging) newPipeline(b *backend, q queue, at, bytes int) *pipeline {
	l := &pipeline{b: b, st: st, queue: q, arrived: wordIn(st.host, 2*int(q)), computed: wordIn(st.host, 2*int(q)+1),
		waiting: make(chan *transfer, openTransfers)}
	for i := range l.slots {
		from := at + i*bytes
		l.slots[i].bytes, l.slots[i].at = st.host.Bytes[from:from+bytes:from+bytes], st.host.Device+cuda.Pointer(from)
	}
	return l
}

// refuses returns an error for a stream that a graph captures; st may be nil.
func (st *staging) refuses(t cuda.Thread, c plan.Coll, s cuda.Stream) error {
	if st == nil || c == plan.Barrier {
		return nil
	}
	captured, _, err := capture(t, s)
	if captured {
		err = fmt.Errorf("a graph cannot capture %v: it is staged through host memory, and the host takes part in it (%s)", c, st.why)
	}
	return err
}

// enqueue puts an operation between what is on s now and what will be. The caller holds b.mu.
func (st *staging) enqueue(b *backend, t cuda.Thread, c *pg.Call, s cuda.Stream) error {
	if c.Coll == plan.Barrier {
		return nil
	}
	l := st.pipelines[queueOf(c.Coll)]
	if err := l.begin(t); err != nil {
		return err
	}
	x, err := l.transferOf(c)
	if err != nil {
		return err
	}
	select {
	case l.waiting <- x: // before its rounds, for those can have to wait until some of them are done
	case <-st.over:
		return first(b.failure.get(), colligo.ErrClosed)
	}
	down, up := &b.streams.down[l.queue], &b.streams.up[l.queue]
	if err := follow(t, down.stream, s, down.event); err != nil {
		return err
	}
	for i := range x.rounds {
		if err := l.give(t, x, i); err != nil {
			return err
		}
	}
	return follow(t, s, up.stream, up.event)
}

// String describes the backend.
func (st *staging) String() string {
	b := st.pipelines[collectives].b
	return fmt.Sprintf("native GPU backend: rank %d of %d on %v, staged through %s of host memory over %s (%s)", b.rank, b.size, b.device,
		colligo.FormatBytes(int64(len(st.host.Bytes))), st.aside.Transport(), st.why)
}

// register remembers memory that nobody maps, so that closing the registration waits for what runs on it.
func (st *staging) register(b *backend, at cuda.Pointer, bytes int) *window {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &window{at: at, bytes: bytes}
	b.windows = append(b.windows, w)
	return w
}

// stop ends the carrying; what is with the CPU fails.
func (st *staging) stop(cause error) {
	st.once.Do(func() { close(st.over) })
	if st.aside != nil {
		st.aside.Fail(cause)
	}
}

// release ends all waiting for the host, once the group has failed.
func (st *staging) release(cause error) {
	st.stop(cause)
	st.workers.Wait()
	for _, l := range st.pipelines {
		l.release()
	}
}

// end stops the workers and leaves the group aside; st may be nil.
func (st *staging) end() error {
	if st == nil {
		return nil
	}
	st.once.Do(func() { close(st.over) })
	var err error
	if st.aside != nil {
		err = st.aside.Close()
	}
	st.workers.Wait()
	return err
}

// free gives back what is on the device and pinned; st may be nil.
func (st *staging) free(t cuda.Thread) error {
	if st == nil {
		return nil
	}
	var errs []error
	for _, l := range st.pipelines {
		for i := range l.slots {
			if e := l.slots[i].free; e != 0 {
				errs = append(errs, t.DestroyEvent(e))
			}
		}
	}
	return errors.Join(append(errs, t.FreeHost(st.host))...)
}

// slack is how much longer than the CPU's operations the device may take before the watchdog ends the group: the CPU knows
// better which rank is late.
const slack = 2 * time.Second

// look is lookAtAll of a backend that stages.
func (st *staging) look(b *backend, t cuda.Thread) error {
	for q := range numQueues {
		open, err := b.lookAt(t, q)
		if err != nil {
			return err
		}
		if b.failure.get() == nil && open > b.limit()+slack {
			return fmt.Errorf("the device of rank %d is not done after %v: staging through host memory, it waits %s: %w",
				b.rank, b.limit(), st.pipelines[q].where(), colligo.ErrTimeout)
		}
	}
	return nil
}
