package gpu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// The engines of NewDevices.
const (
	Peer = "peer" // this library's own
	NCCL = nccl.Name
)

// NewDevices returns the GPUs of this process for collectives among them, of one tensor for each GPU and without a group of the
// program's. The engine is Peer or NCCL. An empty one is NCCL where its library is found, else Peer, which one warning says. Close gives
// back what calls have made.
//
// The driver is that of peer.With in the context, else the machine's. So are the other options of peer.With, and the library that
// nccl.With names. Results of the engines are equal, but for the order in which floating point numbers are added up. Peer has every
// reduction but a premultiplied sum, also those that NCCL lacks. The first call on a list of devices makes a group of them then. A call
// that fails ends it, and the next one makes another. c10d: torch.cuda.nccl.
func NewDevices(ctx context.Context, engine string) (*nccl.Devices, error) {
	driver, err := peer.DriverOf(ctx)
	if err != nil {
		return nil, fmt.Errorf("gpu: devices: %w", err)
	}
	own := &peerLists{ctx: context.WithoutCancel(ctx), groups: map[string][]*pg.Group{}}
	switch engine {
	case Peer:
		return nccl.NewDevicesBy(driver, own), nil
	case NCCL, "":
		l, err := libraryFor(ctx, driver)
		if err == nil {
			return nccl.NewDevices(driver, l), nil
		}
		if engine == NCCL {
			return nil, fmt.Errorf("gpu: devices: %w", err)
		}
		slog.WarnContext(ctx, "collectives among the GPUs of this process are carried by this library's own kernels, not by NCCL", "error", err)
		return nccl.NewDevicesBy(driver, own), nil
	}
	return nil, fmt.Errorf("gpu: devices: no engine %q: there are %q and %q", engine, NCCL, Peer)
}

// libraryFor returns the library that a context names, or the machine's for the machine's own driver.
func libraryFor(ctx context.Context, driver *cuda.Driver) (*nccl.Library, error) {
	if o, _ := nccl.OptionsOf(ctx); o.Library != nil {
		return o.Library, nil
	}
	if machine, err := cuda.Open(); err != nil || machine != driver {
		return nil, fmt.Errorf("%w for a driver that is not the machine's", nccl.ErrNotFound)
	}
	return nccl.Open("")
}

// peerLists is the nccl.ListEngine of package peer. The devices of a list are the ranks of a group in this process, each with a goroutine
// for the time of a call.
type peerLists struct {
	ctx    context.Context
	groups map[string][]*pg.Group // by the list of their devices
}

// Name implements nccl.ListEngine.
func (e *peerLists) Name() string { return Peer }

// Run implements nccl.ListEngine. The first error ends the list's group, for the other devices would wait for one that has refused its
// part.
func (e *peerLists) Run(c *nccl.ListCall) error {
	if len(c.Comms) > 0 {
		return errors.New("communicators are NCCL's, and the engine is " + Peer)
	}
	key := fmt.Sprint(c.Devices)
	groups := e.groups[key]
	if groups == nil {
		var err error
		if groups, err = pg.InProcess(e.ctx, len(c.Devices), pg.Config{Backends: "cpu:host,cuda:" + Peer}); err != nil {
			return err
		}
		e.groups[key] = groups
	}
	var once sync.Once
	var first error
	onEach(groups, func(i int) error {
		err := e.listed(groups[i], c, i)
		if err != nil {
			once.Do(func() { first = err })
			groups[i].Abort(err)
		}
		return err
	})
	if first == nil {
		return nil
	}
	delete(e.groups, key)
	onEach(groups, func(i int) error { return groups[i].Close() }) // whose errors follow from the first one
	return first
}

// onEach calls f for all ranks at once, and returns when all calls have.
func onEach(groups []*pg.Group, f func(i int) error) error {
	errs := make([]error, len(groups))
	var all sync.WaitGroup
	for i := range groups {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// listed enqueues the part of tensor i in a call. Where the result has a place of its own, the input is copied there first.
func (e *peerLists) listed(g *pg.Group, c *nccl.ListCall, i int) error {
	s := c.Stream(i)
	ctx := peer.OnStream(e.ctx, s)
	switch c.Coll {
	case plan.AllReduce:
		if err := copied(c, i, s); err != nil {
			return err
		}
		return g.AllReduce(ctx, c.Outs[i], c.Op)
	case plan.Reduce:
		if i != c.Root {
			return g.Reduce(ctx, c.Ins[i], c.Root, c.Op)
		}
		if err := copied(c, i, s); err != nil {
			return err
		}
		return g.Reduce(ctx, c.Outs[i], c.Root, c.Op)
	case plan.Broadcast:
		return g.Broadcast(ctx, c.Ins[i], 0)
	case plan.AllGather:
		return g.AllGatherIntoTensor(ctx, c.Outs[i], c.Ins[i])
	case plan.ReduceScatter:
		return g.ReduceScatterTensor(ctx, c.Outs[i], c.Ins[i], c.Op)
	}
	return fmt.Errorf("%v has no form on a list", c.Coll)
}

// copied enqueues the copy of tensor i to its output.
func copied(c *nccl.ListCall, i int, s cuda.Stream) error {
	from, to := c.Ins[i], c.Outs[i]
	if from.Size() == 0 || from.Addr() == to.Addr() {
		return nil
	}
	t, err := c.Devices[i].Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	return t.Copy(cuda.Pointer(to.Addr()), cuda.Pointer(from.Addr()), from.Size(), s)
}

// Close implements nccl.ListEngine.
func (e *peerLists) Close() error {
	var errs []error
	for _, groups := range e.groups {
		errs = append(errs, onEach(groups, func(i int) error { return groups[i].Close() }))
	}
	clear(e.groups)
	return errors.Join(errs...)
}
