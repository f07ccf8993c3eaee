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
const Name = backend.NCCL

func init() { backend.Register(colligo.CUDA, Name, open) }

// Options say how a group's backend is made. The zero value is the default.
type Options struct {
	// Config is that of the communicators, the same on all ranks. With Config.NonBlocking the library begins a thread for each launch, so
	// that calls cost more. A communicator that has not formed after the group's ConnectTimeout is given up either way. A call from
	// which the library does not return ends with the group.
	Config Config
	// IntraNode has sums of at most 10 MiB carried by this library's own backend "peer", where all ranks reach each other's memory. The
	// program imports that backend, and peer.With gives it options. Group.Metrics counts what each backend carries. With ranks of PyTorch
	// it means nothing. The same on all ranks. The environment's ENABLE_INTRA_NODE_COMM sets it, too. c10d: IntraNodeComm.
	IntraNode bool
	// HighPriority puts asynchronous operations before the program's own work on the device. c10d: is_high_priority_stream.
	HighPriority bool
	// RanksPerRoot is how many ranks of a communicator meet by one identity; 0 is 128. The same on all ranks.
	RanksPerRoot int
	Timeout      time.Duration // how long an operation may stay unfinished before the group fails; the group's if 0
	Driver       *cuda.Driver  // nil opens the machine's
	Library      *Library      // nil opens the machine's
	// Plans has collectives carried out as plans of this library: PlansRing or PlansTree. NCCL only moves what a step sends, by
	// ncclSend and ncclRecv, and this library's kernels reduce. So the order of summation is the planner's, and there is every reduction
	// of the CPU's. Lists of tensors, blocks, and collectives that the planners lack stay NCCL's own. The same on all ranks; empty is
	// NCCL's own for all.
	Plans string
	// Rules has all-reduces of ranks on several hosts go in two levels: by this library's own backend "peer" within the hosts, by NCCL
	// between them. The program imports that backend. All hosts must have as many ranks, which reach each other's memory there. Where they
	// cannot, rank 0 says so once. NCCL_HOSTID counts as for NCCL. Nil is NCCL's own algorithms for all. SocketRules is a table to
	// begin with. With ranks of PyTorch it means nothing. The same on all ranks.
	Rules []Rule
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
	torch      *backend.Torch // of a job with ranks of PyTorch, else nil
	rank, size int
	number     int // among the backends that operations have opened for devices of the group
	options    Options
	library    *Library
	device     *cuda.Device
	check      *devmem.Checker
	opened     bool

	// Under the order's lock.
	inBlock  bool
	blockErr error
	scratch  scratch
	kernels  planKernels

	inside inside

	levels *levels // nil if there are none; from the opening on

	mu      sync.Mutex
	main    *Comm
	pairs   map[int]*Comm // by peer, of sends and receives outside a block
	aborted bool
}

var (
	_ backend.Grouper   = (*ncclBackend)(nil)
	_ backend.Tracker   = (*ncclBackend)(nil)
	_ backend.Reader    = (*ncclBackend)(nil)
	_ backend.Selective = (*ncclBackend)(nil)
	_ backend.Splitter  = (*ncclBackend)(nil)
	_ backend.Stager    = (*ncclBackend)(nil)
	_ backend.Shared    = (*ncclBackend)(nil)

	_ backend.Communicating = (*ncclBackend)(nil)
	_ streamorder.Carrier   = (*ncclBackend)(nil)
)

// open makes the backend of a group. A rank that fails here fails the group, for its peers wait for it.
func open(ctx context.Context, g backend.Host, d colligo.Device) (backend.Backend, error) {
	b := newBackend(ctx, g, Options{})
	if _, err := b.start(ctx, d, nil); err != nil {
		return nil, err
	}
	return b.withIntraNode(ctx)
}

// newBackend returns a backend that is not open. Options of the context come before the ones given.
func newBackend(ctx context.Context, g backend.Host, o Options) *ncclBackend {
	b := &ncclBackend{group: g, torch: g.Torch(), rank: g.Rank(), size: g.Size(), options: o}
	b.pairs = map[int]*Comm{}
	if given, ok := ctx.Value(optionsKey{}).(Options); ok {
		b.options = given
	}
	return b
}

// start opens the backend. First makes its communicator, if that is not to be made of the group's ranks by an identity.
func (b *ncclBackend) start(ctx context.Context, d colligo.Device, first func(context.Context) (*Comm, error)) (backend.Backend, error) {
	if err := b.open(ctx, d, first); err != nil {
		return nil, streamorder.Refuse(b.group, b, d, err)
	}
	return b, nil
}

func (b *ncclBackend) open(ctx context.Context, d colligo.Device, first func(context.Context) (*Comm, error)) (err error) {
	if err := errors.Join(b.options.checkPlans(), checkRules(b.options.Rules)); err != nil {
		return err
	}
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
	b.Order.Usual = !b.options.HighPriority
	b.Order.Commands = 3 // the library's kernel, and what orders it after kernels on other streams
	b.check = devmem.NewChecker(driver, b.device)
	return streamorder.OnDevice(b.device, func(t cuda.Thread) error { return b.openOn(ctx, t, first) })
}

// openOn makes the streams, and the communicator unless its first operation is to make it.
func (b *ncclBackend) openOn(ctx context.Context, t cuda.Thread, first func(context.Context) (*Comm, error)) (err error) {
	if err := b.Order.Open(t); err != nil {
		return err
	}
	if b.Reader, err = devmem.NewReader(t, b.Order, b.check); err != nil {
		return err
	}
	b.opened, b.kernels.tenant = true, b.Tenant
	switch {
	case first != nil:
		c, err := first(ctx)
		if err := b.keep(c, err); err != nil {
			return err
		}
	case !b.lazy():
		if err := b.meet(ctx); err != nil {
			return err
		}
		if err := b.communicate(ctx); err != nil {
			return err
		}
	}
	if err := b.openLevels(ctx); err != nil {
		return err
	}
	b.group.Log().Info("NCCL carries the group's operations on a device", "group", b.group.Name(), "rank", b.rank, "device", b.device.Place(),
		"version", b.library.Version(), "path", b.library.Path)
	b.Watch(b.limit(), b.look, b.group.Fail)
	return b.group.Err()
}

// meet waits on the CPU until all ranks open the backend, no longer than an operation may take, nor than ConnectTimeout. NCCL would not tell
// which rank has not come, or has left. While the communicator forms afterwards, only a rank's death is told. Ranks of PyTorch do not meet.
func (b *ncclBackend) meet(ctx context.Context) error {
	if b.torch != nil || b.size == 1 {
		return nil
	}
	limit, name := b.group.ConnectTimeout(), "ConnectTimeout"
	if t := b.limit(); t < limit {
		limit, name = t, "Timeout"
	}
	if d, ok := ctx.Deadline(); ok && time.Until(d) < limit {
		limit, name = time.Until(d).Round(time.Millisecond), "the context's deadline"
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := backend.Barrier(limited, b.group)
	if errors.Is(err, colligo.ErrTimeout) {
		return fmt.Errorf("the communicator of %d ranks has not formed after %v (%s): %w", b.size, limit, name, err)
	}
	return err
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
	limit := b.limit()
	if coll, took := b.inside.look(); took > limit {
		err := fmt.Errorf("the library has not returned to rank %d after %v, it waits for %s: %w", b.rank, limit, b.others(), colligo.ErrTimeout)
		return &backend.Late{Coll: coll, After: limit, Err: err}
	}
	return b.CheckTimeout(t, limit, func(q streamorder.Queue) error {
		err := fmt.Errorf("the device of rank %d is not done after %v, it waits for %s: %w", b.rank, limit, b.others(), colligo.ErrTimeout)
		return &backend.Late{Coll: q.Coll(), After: limit, Err: err}
	})
}

// Abort ends what is pending because the group has failed. After a peaceful end Close lets pending operations end first.
func (b *ncclBackend) Abort(cause error) {
	if b.Order == nil || !b.Failure.Set(cause) || !b.opened {
		return
	}
	l := b.levels
	if b.Failure.Peaceful() {
		if l != nil {
			l.local.Abort(cause)
		}
		return
	}
	b.Failure.Raise()
	if l != nil {
		b.Go(func() { l.group.partOf.Fail(cause) }) // a call may wait in that group
	}
	b.Go(func() { _ = b.abort() }) // the group's first error is the cause of what fails here
}

// abort ends the communicators without the peers. A call that is in the library may go on meanwhile, but none may come later
// with a communicator that is gone. So abort holds the order's lock, unless a call keeps that for long: such a call waits in the
// library, which lets it go.
func (b *ncclBackend) abort() error {
	if b.LockWithin(streamorder.Farewell) {
		defer b.Unlock()
	}
	all := b.take()
	if all == nil {
		return nil
	}
	errs, dropped := make([]error, len(all)), sync.WaitGroup{}
	for i, c := range all {
		dropped.Go(func() { errs[i] = b.drop(c) })
	}
	if b.levels != nil {
		b.levels.abort(b.Failure.Err(), &dropped)
	}
	dropped.Wait()
	return errors.Join(errs...)
}

// take returns the communicators to the first that asks, who destroys them.
func (b *ncclBackend) take() []*Comm {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.aborted {
		return nil
	}
	b.aborted = true
	return b.comms()
}

// longestAbort bounds how long a rank waits for the library to abort or destroy a communicator.
const longestAbort = 30 * time.Second

// drop aborts a communicator.
func (b *ncclBackend) drop(c *Comm) error { return b.bounded("ncclCommAbort", c.Abort) }

// bounded calls the library. If that does not return, a goroutine stays with it, and keeps the device.
func (b *ncclBackend) bounded(function string, call func() error) error {
	limit, done := min(b.limit(), longestAbort), make(chan error, 1)
	go func() {
		d, err := b.device.Driver().Device(b.device.Index())
		if err != nil { // the call is worth more than that
			done <- streamorder.OnDevice(b.device, func(cuda.Thread) error { return call() })
			return
		}
		err = streamorder.OnDevice(d, func(cuda.Thread) error { return call() })
		done <- errors.Join(err, d.Close())
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return fmt.Errorf("nccl: %s has %w after %v (NCCL version %s, %s)", function, errInside, limit, b.library.Version(), b.library.Path)
	}
}

// errInside is in the error of a call from which the library does not come back.
var errInside = errors.New("not returned")

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
			return errors.Join(b.abort(), b.closeLevels(), b.Drain(t))
		}
		return errors.Join(b.Drain(t), b.closeLevels(), b.leave())
	})
	b.Reader.Close()
	free := b.GiveBack(func(t cuda.Thread) error {
		return errors.Join(b.kernels.free(t), b.scratch.free(t), b.Reader.Free(t), b.Failure.Free(t), b.Order.Free(t))
	}, b.group.Log())
	return streamorder.Brief(errors.Join(end, free))
}

// closeLevels ends and gives back what the ranks of the host share.
func (b *ncclBackend) closeLevels() error {
	if b.levels == nil {
		return nil
	}
	return b.levels.close()
}

// leave gives back the communicators, on which nothing is pending. It returns when the ranks of the process have given theirs back, too, or
// after a limit.
func (b *ncclBackend) leave() error {
	all := b.take()
	errs, left := make([]error, len(all)), sync.WaitGroup{}
	for i, c := range all {
		left.Go(func() {
			if errs[i] = b.destroy(c); errs[i] == nil {
				c.awaitProcessPeers(streamorder.Farewell)
			}
		})
	}
	left.Wait()
	return errors.Join(errs...)
}

// destroy destroys a communicator.
func (b *ncclBackend) destroy(c *Comm) error {
	err := b.bounded("ncclCommDestroy", c.Close)
	if errors.Is(err, errInside) {
		return fmt.Errorf("%w: NCCL waits there until graphs with calls of the group are destroyed, and until the devices of this process's ranks are idle",
			err)
	}
	return err
}

// String describes the backend.
func (b *ncclBackend) String() string {
	return fmt.Sprintf("NCCL %s: rank %d of %d on %v (%s)", b.library.Version(), b.rank, b.size, b.device, b.library.Path)
}
