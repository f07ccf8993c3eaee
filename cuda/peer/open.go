package peer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/apart"
	"github.com/colligo-go/colligo/cuda/internal/devmem"
	"github.com/colligo-go/colligo/cuda/internal/hostid"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/cuda/staged"
	"github.com/colligo-go/colligo/kernels/ptx"
	seam "github.com/colligo-go/colligo/pg/backend"
)

func init() { seam.Register(colligo.CUDA, seam.Native, open) }

// open makes the backend of a group. A rank that fails here fails the group, for its peers wait for it. Where some GPUs cannot
// reach each other, package apart carries the operations instead.
func open(ctx context.Context, g seam.Host, d colligo.Device) (seam.Backend, error) {
	b := &backend{launcher: launcher{group: g, rank: g.Rank(), size: g.Size()}}
	given, _ := ctx.Value(optionsKey{}).(Options)
	ctx = hostid.With(ctx, given.host)
	if err := b.open(ctx, d); err != nil {
		return nil, streamorder.Refuse(g, b, d, err)
	}
	if b.barred == "" {
		return b, nil
	}
	if seam.IsDirect(ctx) {
		return nil, errors.Join(fmt.Errorf("%s: %w", b.barred, seam.ErrApart), b.device.Close())
	}
	return apart.Open(ctx, g, b.device, staged.Options{Driver: b.options.Driver, Memory: b.options.Memory, Timeout: b.options.Timeout,
		Why: b.barred, Wanted: b.barred == forced, Shared: b.shared})
}

func (b *backend) open(ctx context.Context, d colligo.Device) error {
	var err error
	if b.options, err = optionsOf(ctx); err != nil {
		return err
	}
	if seam.IsForSteps(ctx) {
		b.options.Timeout = math.MaxInt64
	}
	if b.device, err = b.options.Driver.Device(d.Index); err != nil {
		if n, err2 := b.options.Driver.Devices(); err2 == nil && d.Index >= n {
			err = fmt.Errorf("this process sees %d devices: %w", n, err)
		}
		return err
	}
	// Opening can wait for the device with a lock of the process held. Until all ranks are here, the device may be waiting
	// for one that has to enqueue something of another group first.
	if b.size > 1 {
		if b.barred, err = b.survey(ctx); err != nil || b.barred != "" {
			return err
		}
	}
	l, err := symheap.NewLayout(b.size, b.options.Memory)
	if err != nil {
		return fmt.Errorf("%w; %d MiB would do", err, leastMemory(b.size)>>20)
	}
	b.Order = streamorder.New(b.device, b.rank, b.size, b)
	b.check = devmem.NewChecker(b.options.Driver, b.device)
	b.heap = symheap.New(b.group, b.options.Driver, b.device, l)
	b.layout, b.order, b.memory = &b.heap.Layout, b.Order, b.options.Memory
	// The first operation may be one that a graph captures.
	return streamorder.OnDevice(b.device, func(t cuda.Thread) error { return b.openOn(ctx, t) })
}

// openOn makes the backend's part on the device.
func (b *backend) openOn(ctx context.Context, t cuda.Thread) (err error) {
	if err := b.Order.Open(t); err != nil {
		return err
	}
	if err := b.allocate(t); err != nil {
		return err
	}
	if err := b.loadCode(t); err != nil {
		return err
	}
	if b.size > 1 {
		if err := b.meetPeers(ctx, t); err != nil || b.barred != "" {
			return err
		}
	}
	b.tune(b.options.Rules)
	b.prepare(uint64(b.watchdog.told.Device))
	b.opened = true
	b.Watch(b.limit(), b.watchdog.look, b.group.Fail)
	return b.group.Err()
}

// allocate takes the heap, and the pinned memory by which host and kernels tell each other something.
func (b *backend) allocate(t cuda.Thread) error {
	b.messages.launcher = &b.launcher
	b.watchdog = watchdog{launcher: &b.launcher, messages: &b.messages, limit: b.limit}
	b.Watched, b.Settled = b.messages.watch, b.messages.settle
	var err error
	if b.watchdog.told, err = t.AllocHost(ptx.AbortBytes); err != nil {
		return err
	}
	clear(b.watchdog.told.Bytes)
	b.Failure.Look(b.watchdog.told)
	if b.Reader, err = devmem.NewReader(t, b.Order, b.check); err != nil {
		return err
	}
	if b.watchdog.flags, err = t.AllocHost(4 * (b.layout.NumWords() + b.layout.NumTags())); err != nil {
		return err
	}
	return b.heap.Alloc(t, b.Setup.Stream)
}

// loadCode loads the kernels that every group needs.
func (b *backend) loadCode(t cuda.Thread) (err error) {
	b.code.tenant = b.Tenant
	if b.device.Repeats() {
		b.code.repeats.wanted = true
	}
	if b.code.ahead, err = b.device.LaunchesAhead(); err != nil {
		return err
	}
	b.code.log = b.group.Log().With("group", b.group.Name(), "rank", b.rank, "device", b.device)
	if err := b.code.loadMoves(t); err != nil {
		return err
	}
	b.heap.Use(symheap.Kernels{Copy: b.code.move(copyBytes).Function, Fill: b.code.move(fillLines).Function})
	return b.code.pace(t, b.options.launch, b.Setup.Stream)
}

// meetPeers maps the peers' heaps and tries them. If some cannot be mapped, it gives all up on all ranks.
func (b *backend) meetPeers(ctx context.Context, t cuda.Thread) error {
	reach, err := b.heap.Meet(ctx, t, b.Setup.Stream, digest(b.options.Rules))
	if err != nil {
		return err
	}
	b.Tenant.Join(b.heap.ProcessPeers())
	b.code.dirty = true // the heap is zeros
	b.linked = reach.NVLink
	b.multiprocessors = forCollectives(reach.Multiprocessors)
	if !b.linked || b.serial {
		b.layout.WithoutRendezvous()
	}
	if b.barred = reach.Barred; b.barred != "" {
		return b.giveUp(ctx, t)
	}
	if b.shared {
		streams, err := b.MakeAsync(t)
		if err != nil {
			return err
		}
		if err := b.warm(t, streams); err != nil {
			return err
		}
	}
	return b.heap.Test(ctx, t, b.Setup.Stream)
}

// giveUp gives everything back before the group stages. The device stays, for the other backend.
func (b *backend) giveUp(ctx context.Context, t cuda.Thread) error {
	if err := b.heap.GiveUp(ctx, t); err != nil {
		return err
	}
	b.Reader.Close()
	err := errors.Join(b.heap.Leave(func() error { return nil }), b.Tenant.Alone(t, func() error { return b.free(t) }))
	b.Tenant.Close()
	return err
}

// leastMemory returns with how many bytes, in whole MiB, a heap can be laid out.
func leastMemory(size int) int {
	for n := 1 << 20; ; n += 1 << 20 {
		if _, err := symheap.NewLayout(size, n); err == nil {
			return n
		}
	}
}

// limit returns how long an operation may stay unfinished.
func (b *backend) limit() time.Duration {
	if b.options.Timeout > 0 {
		return b.options.Timeout
	}
	return b.group.Timeout()
}
