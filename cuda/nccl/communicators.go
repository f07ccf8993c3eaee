package nccl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/pg/backend"
)

// lazy reports whether the group's communicator is made by the first operation that needs it, as PyTorch's ranks do.
func (b *ncclBackend) lazy() bool { return b.torch != nil && !b.torch.Bound }

// communicate makes the group's communicator, unless it is there.
func (b *ncclBackend) communicate(ctx context.Context) error {
	if b.main != nil {
		return nil
	}
	return b.link(ctx)
}

// link forms the group's communicator.
func (b *ncclBackend) link(ctx context.Context) error {
	if err := b.takeNumber(ctx); err != nil {
		return err
	}
	if b.rootCount() > 1 {
		return b.keep(b.joinScalable(ctx))
	}
	number := 0
	if b.torch != nil {
		number = b.torch.NextExchange()
	}
	return b.keep(b.join(ctx, strconv.Itoa(number), b.rank, b.size))
}

// takeNumber numbers the backends of a group whose ranks have several devices each, in the order in which operations open them. Ranks
// find one another's identities by it, for a device of one rank may be any of another. No rank is through with one communicator before
// all have counted for it.
func (b *ncclBackend) takeNumber(ctx context.Context) error {
	if b.torch != nil {
		return nil
	}
	n, err := b.group.Count(ctx, "nccl/backends", 1)
	if err != nil {
		return fmt.Errorf("the number of the communicator among those of the group: %w", err)
	}
	b.number = int(n-1) / b.size
	return nil
}

// keep takes the group's communicator.
func (b *ncclBackend) keep(c *Comm, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c == nil || c.handle == 0 {
		return err
	}
	if b.aborted {
		return errors.Join(b.Failure.Err(), err, b.drop(c))
	}
	b.main, c.Limit = c, b.limit()
	return err
}

// join makes a communicator of some ranks of the group. The first of them makes its identity, which the others find in the
// group's store under the communicator's name.
func (b *ncclBackend) join(ctx context.Context, name string, rank, size int) (*Comm, error) {
	id, err := b.identity(ctx, name, rank)
	if err != nil {
		return nil, fmt.Errorf("the identity of communicator %s: %w", name, err)
	}
	return b.form(ctx, size, func() (*Comm, error) { return b.library.NewComm(id, rank, size, b.options.Config) })
}

// form makes a communicator of size ranks by a call of the library. That returns when all have come, unless communicators do not block,
// and one rank that does not come would hold it for ever. So it has a thread of its own, which is left behind after ConnectTimeout, or
// when the group fails. A communicator that is made after that is aborted.
func (b *ncclBackend) form(ctx context.Context, size int, call func() (*Comm, error)) (c *Comm, err error) {
	if b.options.Config.NonBlocking {
		if c, err = call(); err != nil {
			return nil, err
		}
		return b.settled(ctx, c)
	}
	err = b.within(ctx, size, func(ctx context.Context) error {
		c, err = apart(ctx, b.device, b.group.Err, call)
		return err
	})
	return c, err
}

// apart makes a communicator on another thread, and waits for it until the context ends or failed has an error. A communicator
// that comes later is aborted.
func apart(ctx context.Context, d *cuda.Device, failed func() error, call func() (*Comm, error)) (*Comm, error) {
	type made struct {
		c   *Comm
		err error
	}
	done, left := make(chan made), make(chan struct{})
	defer close(left)
	go func() {
		var m made
		m.err = streamorder.OnDevice(d, func(cuda.Thread) (err error) {
			if m.c, err = call(); err != nil && m.c != nil && m.c.handle != 0 {
				err = errors.Join(err, m.c.Abort())
			}
			return err
		})
		select {
		case done <- m:
		case <-left:
			if m.err == nil && m.c != nil { // nobody is there to hear of it
				_ = streamorder.OnDevice(d, func(cuda.Thread) error { return m.c.Abort() })
			}
		}
	}()
	every := time.NewTicker(failurePoll)
	defer every.Stop()
	for {
		select {
		case m := <-done:
			if m.err != nil {
				return nil, m.err
			}
			return m.c, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-every.C:
			if err := failed(); err != nil {
				return nil, err
			}
		}
	}
}

// failurePoll is how often a rank that waits for a communicator looks whether its group has failed.
const failurePoll = 5 * time.Millisecond

// settled returns a communicator that does not block when it has formed.
func (b *ncclBackend) settled(ctx context.Context, c *Comm) (*Comm, error) {
	if err := b.settle(ctx, c); err != nil {
		return nil, errors.Join(err, b.drop(c))
	}
	return c, nil
}

// settle waits for a communicator that is made in the background.
func (b *ncclBackend) settle(ctx context.Context, c *Comm) error {
	return b.within(ctx, c.size, func(ctx context.Context) error { return c.settle(ctx, b.group.Err) })
}

// within gives the forming of a communicator of size ranks until ConnectTimeout.
func (b *ncclBackend) within(ctx context.Context, size int, wait func(ctx context.Context) error) error {
	limit := b.group.ConnectTimeout()
	limited, cancel := context.WithTimeoutCause(ctx, limit, colligo.ErrTimeout)
	defer cancel()
	err := wait(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("the communicator of %d ranks has not formed after %v (ConnectTimeout): a rank has not come to it: %w", size, limit, err)
	}
	return err
}

// key is where the identity of a communicator lies. PyTorch's ranks have a part of the store for nothing else.
func (b *ncclBackend) key(name string) string {
	if b.torch != nil {
		return name
	}
	return fmt.Sprintf("nccl/%d/%s", b.number, name)
}

func (b *ncclBackend) identity(ctx context.Context, name string, rank int) (*UniqueID, error) {
	key := b.key(name)
	if rank == 0 {
		id, err := b.library.NewUniqueID()
		if err != nil {
			return nil, err
		}
		return id, b.group.Set(ctx, key, id[:])
	}
	return b.identityAt(ctx, key)
}

func (b *ncclBackend) identityAt(ctx context.Context, key string) (*UniqueID, error) {
	got, err := b.group.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(got) != len(UniqueID{}) {
		return nil, fmt.Errorf("%d bytes under %s in the store, an identity has %d", len(got), key, len(UniqueID{}))
	}
	return (*UniqueID)(got), nil
}

// ranksPerRoot is how many ranks of a large communicator meet by one identity. c10d: TORCH_NCCL_RANKS_PER_ROOT.
const ranksPerRoot = 128

// rootCount is how many identities the group's communicator has.
func (b *ncclBackend) rootCount() int {
	per := b.options.RanksPerRoot
	if per <= 0 {
		per = ranksPerRoot
	}
	if b.size <= per || b.library.has("ncclCommInitRankScalable", b.library.table.CommInitRankScalable != nil) != nil {
		return 1
	}
	return (b.size + per - 1) / per
}

// rootRank returns the rank that makes an identity. The ranks are dealt to the roots in blocks; the first ones have one rank more if
// the blocks are not equal. A block's first rank is its root.
func rootRank(root, roots, size int) int {
	each, more := size/roots, size%roots
	return root*each + min(root, more)
}

// joinScalable makes the group's communicator by several identities.
func (b *ncclBackend) joinScalable(ctx context.Context) (*Comm, error) {
	roots := b.rootCount()
	ids := make([]UniqueID, roots)
	for i := range roots {
		if rootRank(i, roots, b.size) != b.rank {
			continue
		}
		id, err := b.library.NewUniqueID()
		if err == nil {
			err = b.group.Set(ctx, b.rootKey(i), id[:])
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range roots {
		id, err := b.identityAt(ctx, b.rootKey(i))
		if err != nil {
			return nil, fmt.Errorf("identity %d of %d: %w", i, roots, err)
		}
		ids[i] = *id
	}
	return b.form(ctx, b.size, func() (*Comm, error) { return b.library.NewCommScalable(ids, b.rank, b.size, b.options.Config) })
}

func (b *ncclBackend) rootKey(i int) string { return b.key(fmt.Sprintf("UniqueNCCLID:%d", i)) }

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
	b.pairs[peer], c.Limit = c, b.limit()
	if b.aborted {
		return nil, me, errors.Join(b.Failure.Err(), b.drop(c))
	}
	return c, me, nil
}

// Split implements backend.Splitter by ncclCommSplit.
func (b *ncclBackend) Split(ctx context.Context, h backend.Host, color, key int) (backend.Backend, error) {
	b.Lock()
	defer b.Unlock()
	if err := b.Failure.Err(); err != nil {
		return nil, err
	}
	config := b.options.Config
	var part *ncclBackend
	if h != nil {
		part = newBackend(ctx, h, b.options)
		part.library = b.library
		config = part.options.Config
	}
	split := func(ctx context.Context) (*Comm, error) {
		if err := b.communicate(ctx); err != nil {
			return nil, err
		}
		call := func() (*Comm, error) { return b.main.Split(color, key, config) }
		if !b.options.Config.NonBlocking {
			return b.form(ctx, b.size, call)
		}
		c, err := call()
		if err != nil || c == nil {
			return nil, errors.Join(err, b.settle(ctx, b.main))
		}
		if err := b.settle(ctx, b.main); err != nil {
			return nil, errors.Join(err, b.drop(c))
		}
		return b.settled(ctx, c)
	}
	if h == nil {
		return nil, streamorder.OnDevice(b.device, func(cuda.Thread) error {
			_, err := split(ctx)
			return err
		})
	}
	if _, err := part.start(ctx, b.device.Place(), split); err != nil {
		return nil, err
	}
	return part.withIntraNode(ctx)
}

// asyncError asks all communicators for errors that the library has met in the background.
func (b *ncclBackend) asyncError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.aborted {
		return nil
	}
	if b.main != nil {
		if err := b.main.AsyncError(); err != nil {
			return blame(b.others(), err)
		}
	}
	if b.levels != nil {
		if err := b.levels.rail.AsyncError(); err != nil {
			return blame(b.others(), err)
		}
	}
	for peer, c := range b.pairs {
		if err := c.AsyncError(); err != nil {
			return blame(fmt.Sprintf("rank %d", peer), err)
		}
	}
	return nil
}

// blameCall tells why a call has failed. A failed group makes the library let go of its calls, so its error comes first. A lost rank is
// named. The peer is that of a message, else -1.
func (b *ncclBackend) blameCall(peer int, err error) error {
	if err == nil || errors.Is(err, colligo.ErrPeerLost) {
		return err
	}
	if !b.Failure.Peaceful() {
		return b.Failure.Err()
	}
	var e *Error
	if errors.As(err, &e) && e.Function != background && e.Result == SystemError { // of this machine
		return err
	}
	if peer >= 0 {
		return blame(fmt.Sprintf("rank %d", peer), err)
	}
	return blame(b.others(), err)
}

// blame names the lost rank in front of an error of the network.
func blame(who string, err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Result != RemoteError && e.Result != SystemError {
		return err
	}
	return fmt.Errorf("%s is gone, or the network to it has failed: %w: %w", who, colligo.ErrPeerLost, err)
}

// others names the ranks on the other side of the group's communicator. Which of them is at fault NCCL does not tell.
func (b *ncclBackend) others() string {
	var all []string
	for r := range b.size {
		if r != b.rank {
			all = append(all, strconv.Itoa(r))
		}
	}
	switch {
	case len(all) == 0:
		return "no other rank"
	case len(all) == 1:
		return "rank " + all[0]
	case len(all) > mostNamed:
		return fmt.Sprintf("one of %d ranks", len(all))
	}
	return "one of ranks " + strings.Join(all, ", ")
}

// mostNamed is how many ranks a message names.
const mostNamed = 16

// comms returns the communicators that there are. The caller holds b.mu.
func (b *ncclBackend) comms() (all []*Comm) {
	if b.main != nil {
		all = append(all, b.main)
	}
	if b.levels != nil {
		all = append(all, b.levels.rail)
	}
	for _, c := range b.pairs {
		all = append(all, c)
	}
	return all
}
