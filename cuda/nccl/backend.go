package nccl

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

// Name is the backend's name in pg.Config.Backend.
const Name = "nccl"

func init() { backend.Register(colligo.CUDA, Name, open) }

// Options say how a group's backend is made. The zero value is the default.
type Options struct {
	Config  Config        // of the communicators; the same on all ranks
	Timeout time.Duration // how long an operation may stay unfinished before the group fails; the group's if 0
	Driver  *cuda.Driver  // nil opens the machine's
	Library *Library      // nil opens the machine's
}

type optionsKey struct{}

// With gives options to the first operation of a group on a device, which opens the backend with them.
func With(ctx context.Context, o Options) context.Context {
	return context.WithValue(ctx, optionsKey{}, o)
}

// ncclBackend is one rank's part of a group whose operations NCCL carries out. The order that it embeds carries out Run,
// Begin, End and Finished; the reader carries out Read.
type ncclBackend struct {
	*streamorder.Order
	*devmem.Reader
	group      backend.Host
	rank, size int
	options    Options
	library    *Library
	device     *cuda.Device
	check      *devmem.Checker
	opened     bool

	// Under the order's lock.
	inBlock  bool
	blockErr error

	mu      sync.Mutex
	main    *Comm
	pairs   map[int]*Comm // by peer, of sends and receives outside a block
	aborted bool
}

var (
	_ backend.Grouper     = (*ncclBackend)(nil)
	_ backend.Tracker     = (*ncclBackend)(nil)
	_ backend.Reader      = (*ncclBackend)(nil)
	_ streamorder.Carrier = (*ncclBackend)(nil)
)

// open makes the backend of a group. A rank that fails here fails the group, for its peers wait for it.
func open(ctx context.Context, g backend.Host, d colligo.Device) (backend.Backend, error) {
	b := &ncclBackend{group: g, rank: g.Rank(), size: g.Size(), pairs: map[int]*Comm{}}
	b.options, _ = ctx.Value(optionsKey{}).(Options)
	if err := b.open(ctx, d); err != nil {
		err = fmt.Errorf("rank %d on %v: %w", b.rank, d, err)
		g.Fail(err)
		b.Abort(err)
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *ncclBackend) open(ctx context.Context, d colligo.Device) (err error) {
	driver := b.options.Driver
	if driver == nil {
		if driver, err = cuda.Open(); err != nil {
			return err
		}
	}
	if b.library = b.options.Library; b.library == nil {
		if b.library, err = Open(""); err != nil {
			return err
		}
	}
	if b.device, err = driver.Device(d.Index); err != nil {
		return err
	}
	b.Order = streamorder.New(b.device, b.rank, b.size, b)
	b.check = devmem.NewChecker(driver, b.device)
	return streamorder.OnDevice(b.device, func(t cuda.Thread) error { return b.openOn(ctx, t) })
}

// openOn makes the streams and the communicator.
func (b *ncclBackend) openOn(ctx context.Context, t cuda.Thread) (err error) {
	if err := b.Order.Open(t); err != nil {
		return err
	}
	if b.Reader, err = devmem.NewReader(t, b.Order, b.check); err != nil {
		return err
	}
	b.opened = true
	if b.main, err = b.join(ctx, "0", b.rank, b.size); err != nil {
		return err
	}
	b.group.Log().Info("NCCL carries the group's operations on a device", "group", b.group.Name(), "rank", b.rank, "device", b.device.Place(),
		"version", b.library.Version(), "path", b.library.Path)
	b.Watch(b.limit(), b.look, b.group.Fail)
	return b.group.Err()
}

// join makes a communicator of some ranks of the group. The first of them makes its identity, which the others find in the
// group's store under the communicator's name.
func (b *ncclBackend) join(ctx context.Context, name string, rank, size int) (*Comm, error) {
	id, err := b.identity(ctx, name, rank)
	if err != nil {
		return nil, fmt.Errorf("the identity of communicator %s: %w", name, err)
	}
	c, err := b.library.NewComm(id, rank, size, b.options.Config)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, b.limit())
	defer cancel()
	return c, c.Settle(limited)
}

func (b *ncclBackend) identity(ctx context.Context, name string, rank int) (*UniqueID, error) {
	key := "nccl/" + name
	if rank == 0 {
		id, err := b.library.NewUniqueID()
		if err != nil {
			return nil, err
		}
		return id, b.group.Set(ctx, key, id[:])
	}
	got, err := b.group.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(got) != len(UniqueID{}) {
		return nil, fmt.Errorf("%d bytes under %s in the store, an identity has %d", len(got), key, len(UniqueID{}))
	}
	return (*UniqueID)(got), nil
}

// pair returns the communicator with one peer, for sends and receives outside a block. It is made at the first of them, which
// both ranks call. c10d's process group has the same communicators.
func (b *ncclBackend) pair(ctx context.Context, peer int) (c *Comm, me int, err error) {
	low, high := min(b.rank, peer), max(b.rank, peer)
	if b.rank == high {
		me = 1
	}
	if c := b.pairs[peer]; c != nil {
		return c, me, nil
	}
	if c, err = b.join(ctx, fmt.Sprintf("%d:%d", low, high), me, 2); err != nil {
		return nil, me, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pairs[peer] = c
	if b.aborted {
		return nil, me, errors.Join(b.Failure.Err(), c.Abort())
	}
	return c, me, nil
}

// limit returns how long an operation may stay unfinished.
func (b *ncclBackend) limit() time.Duration {
	if b.options.Timeout > 0 {
		return b.options.Timeout
	}
	return b.group.Timeout()
}

// look returns an error when the library has met one in the background, or when operations take too long. The watchdog calls
// it.
func (b *ncclBackend) look(t cuda.Thread) error {
	if err := b.asyncError(); err != nil {
		return fmt.Errorf("rank %d: %w", b.rank, err)
	}
	for q := range streamorder.NumQueues {
		open, err := b.LookAt(t, q)
		if err != nil {
			return err
		}
		if limit := b.limit(); b.Failure.Err() == nil && open > limit {
			return fmt.Errorf("the device of rank %d is not done after %v: %w", b.rank, limit, colligo.ErrTimeout)
		}
	}
	return nil
}

// asyncError asks all communicators.
func (b *ncclBackend) asyncError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.aborted {
		return nil
	}
	for _, c := range b.comms() {
		if err := c.AsyncError(); err != nil {
			return err
		}
	}
	return nil
}

// comms returns the communicators that there are. The caller holds b.mu.
func (b *ncclBackend) comms() (all []*Comm) {
	if b.main != nil {
		all = append(all, b.main)
	}
	for _, c := range b.pairs {
		all = append(all, c)
	}
	return all
}

// Abort ends what is pending because the group has failed. After a peaceful end Close lets pending operations end first.
func (b *ncclBackend) Abort(cause error) {
	if b.Order == nil || !b.Failure.Set(cause) || !b.opened || b.Failure.Peaceful() {
		return
	}
	b.Failure.Raise()
	b.Go(func() { _ = b.abort() }) // the group's first error is the cause of what fails here
}

// abort ends the communicators without the peers. A call that is in the library may go on meanwhile, but none may come later
// with a communicator that is gone. So abort holds the order's lock, unless a call keeps that for long: such a call waits in the
// library, which lets it go.
func (b *ncclBackend) abort() error {
	if b.LockWithin(streamorder.Farewell) {
		defer b.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.aborted {
		return nil
	}
	b.aborted = true
	return streamorder.OnDevice(b.device, func(cuda.Thread) error {
		var errs []error
		for _, c := range b.comms() {
			errs = append(errs, c.Abort())
		}
		return errors.Join(errs...)
	})
}

// Close ends pending operations and gives everything back. Operations get some time to end; after a failure none waits.
func (b *ncclBackend) Close() error {
	if b.Order == nil {
		if b.device == nil {
			return nil
		}
		return b.device.Close()
	}
	if !b.Shut() {
		return nil
	}
	end := streamorder.OnDevice(b.device, func(t cuda.Thread) error {
		if !b.Failure.Peaceful() || b.opened && !b.QuietWithin(t, streamorder.Farewell) {
			b.Failure.Raise()
			return errors.Join(b.abort(), b.Drain(t))
		}
		return errors.Join(b.Drain(t), b.leave())
	})
	free := streamorder.OnDevice(b.device, func(t cuda.Thread) error {
		return errors.Join(b.Reader.Free(t), b.Failure.Free(t), b.Order.Free(t))
	})
	return streamorder.Brief(errors.Join(end, free, b.device.Close()))
}

// leave gives back the communicators, on which nothing is pending.
func (b *ncclBackend) leave() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.aborted {
		return nil
	}
	b.aborted = true
	var errs []error
	for _, c := range b.comms() {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// String describes the backend.
func (b *ncclBackend) String() string {
	return fmt.Sprintf("NCCL %s: rank %d of %d on %v (%s)", b.library.Version(), b.rank, b.size, b.device, b.library.Path)
}
