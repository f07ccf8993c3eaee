package staged

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/devmem"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/pg/backend"
)

// Options say how a group's backend is made. All ranks give the same Memory.
type Options struct {
	Driver  *cuda.Driver
	Memory  int           // bytes of host memory that are pinned at most
	Timeout time.Duration // how long an operation may stay unfinished before the group fails; the group's if 0
	Why     string        // the reason for staging, for logs and errors
	Wanted  bool          // the program asked for it: then it is no warning
	Beside  bool          // another backend has it carry some operations, and has said so
	Shared  bool          // some ranks share a device
}

const (
	slotDepth   = 3       // slots of a pipeline: one on its way down, one with the CPU, one on its way up
	mostSlot    = 8 << 20 // bytes
	cacheLine   = 64      // bytes between words, and between full pieces of a slot
	stagedWords = 4 << 10 // bytes of host memory before the slots
	spareWords  = 32      // the first of those words that warm takes, one for each stream
	spareBytes  = 64      // of device memory, which warm takes: a word for each stream, and one more
)

// Backend is one rank's part of a group whose GPUs cannot reach each other. The order that it embeds carries out Run, Begin,
// End and Finished; the reader carries out Read.
type Backend struct {
	*streamorder.Order
	*devmem.Reader
	group      backend.Host
	rank, size int
	device     *cuda.Device
	options    Options
	check      *devmem.Checker
	dup        backend.Dup // a group of the same ranks, for the CPU's collectives
	pipelines  [streamorder.NumQueues]*pipeline
	host       *cuda.Host    // the slots of all pipelines, behind a page of words
	spare      cuda.Pointer  // memory of the device that warm takes; 0 where no ranks share a device
	opened     bool          // there is something to end
	over       chan struct{} // closed when nothing is to be carried any more
	once       sync.Once
	workers    sync.WaitGroup
}

var (
	_ backend.Grouper     = (*Backend)(nil)
	_ backend.Tracker     = (*Backend)(nil)
	_ backend.Registrar   = (*Backend)(nil)
	_ backend.Reader      = (*Backend)(nil)
	_ backend.Stager      = (*Backend)(nil)
	_ streamorder.Carrier = (*Backend)(nil)
)

// Open makes the backend of a group on a device, which it closes at its end. All ranks call it together. A rank that fails
// here fails the group, for its peers wait for it.
func Open(ctx context.Context, g backend.Host, d *cuda.Device, o Options) (*Backend, error) {
	b := &Backend{group: g, rank: g.Rank(), size: g.Size(), device: d, options: o, over: make(chan struct{})}
	b.Order = streamorder.New(d, b.rank, b.size, b)
	b.check = devmem.NewChecker(o.Driver, d)
	err := streamorder.OnDevice(d, func(t cuda.Thread) error { return b.open(ctx, t) })
	if err != nil {
		return nil, streamorder.Refuse(g, b, d, err)
	}
	return b, nil
}

// open makes the backend's memory, streams and workers, on all ranks together.
func (b *Backend) open(ctx context.Context, t cuda.Thread) (err error) {
	b.announce()
	if err := b.Order.Open(t); err != nil {
		return err
	}
	if err := b.pin(t); err != nil {
		return err
	}
	if b.Reader, err = devmem.NewReader(t, b.Order, b.check); err != nil {
		return err
	}
	if b.options.Shared {
		if err := b.warm(t); err != nil {
			return err
		}
	}
	// A rank that could not pin its memory has failed the group by now, and no rank waits for it any longer.
	if err := backend.Barrier(ctx, b.group); err != nil {
		return fmt.Errorf("before staging: %w", err)
	}
	if b.dup, err = b.group.Dup(ctx, b.limit()); err != nil {
		return fmt.Errorf("a group to stage with: %w", err)
	}
	for _, l := range b.pipelines {
		b.workers.Go(l.work)
	}
	b.opened = true
	b.Watch(b.limit(), b.look, b.group.Fail)
	return b.group.Err()
}

// announce says why the group stages, once for the group.
func (b *Backend) announce() {
	log := b.group.Log()
	say := log.Warn
	if b.options.Wanted {
		say = log.Info
	}
	if b.rank == 0 && !b.options.Beside {
		say(b.options.Why+": staging through host memory over "+b.group.Transport(), "group", b.group.Name(), "rank", b.rank)
	}
}

// pin takes the host memory and makes the pipelines. That of the collectives has half of the memory.
func (b *Backend) pin(t cuda.Thread) (err error) {
	memory, least := b.options.Memory, 2*b.size*cacheLine
	if memory < 4*slotDepth*least {
		return fmt.Errorf("%d bytes of pinned memory are too few for %d ranks; %d would do", memory, b.size, 4*slotDepth*least)
	}
	var slots [streamorder.NumQueues]int
	bytes := stagedWords
	for q := range slots {
		slots[q] = memory / (4 * slotDepth)
		if streamorder.Queue(q) == streamorder.Collectives {
			slots[q] = memory / (2 * slotDepth)
		}
		slots[q] = min(slots[q], mostSlot) / cacheLine * cacheLine
		bytes += slotDepth * slots[q]
	}
	if b.host, err = t.AllocHost(bytes); err != nil {
		return fmt.Errorf("host memory to stage in (peer.Options.Memory asks for less): %w", err)
	}
	clear(b.host.Bytes[:stagedWords])
	at := stagedWords
	for q := range b.pipelines {
		b.pipelines[q] = b.newPipeline(streamorder.Queue(q), at, slots[q])
		at += slotDepth * slots[q]
	}
	return nil
}

// warm makes all streams, while no other goroutine uses them, and has them carry a command of each kind.
func (b *Backend) warm(t cuda.Thread) (err error) {
	if b.spare, err = t.Alloc(spareBytes); err != nil {
		return err
	}
	streams, err := b.MakeAsync(t)
	for _, l := range b.pipelines {
		err = errors.Join(err, l.begin(t))
		streams = append(streams, &l.down, &l.up)
	}
	if err != nil {
		return err
	}
	return streamorder.Warm(t, streams, b.spare, func(i int, s cuda.Stream) error {
		c, here, there := streamorder.On(t), b.spare+cuda.Pointer(4*(1+i)), wordIn(b.host, spareWords+i).at
		c.Copy(here, there, 4, s)
		c.Copy(there, here, 4, s)
		return c.Err
	})
}

// limit returns how long an operation may stay unfinished.
func (b *Backend) limit() time.Duration {
	if b.options.Timeout > 0 {
		return b.options.Timeout
	}
	return b.group.Timeout()
}

// String describes the backend.
func (b *Backend) String() string {
	return fmt.Sprintf("native GPU backend: rank %d of %d on %v, staged through %s of host memory over %s (%s)", b.rank, b.size, b.device,
		colligo.FormatBytes(int64(len(b.host.Bytes))), b.dup.Transport(), b.options.Why)
}
