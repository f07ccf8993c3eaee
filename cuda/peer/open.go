package peer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/pg"
)

func init() { pg.RegisterBackend(colligo.CUDA, open) }

// backend is one rank's part of a group on one device.
type backend struct {
	group      *pg.Group
	rank, size int
	options    Options
	layout     layout
	device     *cuda.Device
	heap       cuda.Pointer
	peers      []mapping // by rank; the own heap at this rank's place
	family     string
	stop       *cuda.Host
	code       code
	streams    streams
	args       *arguments

	mu      sync.Mutex // held while an operation is enqueued, and by the watchdog
	turns   [numQueues]turn
	last    cuda.Stream // of the last operation
	ops     uint64
	weight  int // enqueued since the last mark
	marks   marks
	ends    marks
	mails   mailCounts
	watch   watch
	closing bool

	failure failure
	helpers sync.WaitGroup // goroutines that Close waits for
	done    chan struct{}  // closed by Close
}

// open makes the backend of a group. A rank that fails here fails the group, for its peers wait for it.
func open(ctx context.Context, g *pg.Group, d colligo.Device) (pg.Backend, error) {
	b := &backend{group: g, rank: g.Rank(), size: g.Size(), done: make(chan struct{})}
	if err := b.open(ctx, d); err != nil {
		err = fmt.Errorf("rank %d on %v: %w", b.rank, d, err)
		g.Fail(err)
		b.Abort(err)
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *backend) open(ctx context.Context, d colligo.Device) error {
	if b.size > maxRanks {
		return fmt.Errorf("a group of %d ranks; GPUs that reach each other's memory are at most %d", b.size, maxRanks)
	}
	var err error
	if b.options, err = optionsOf(ctx, b.group); err != nil {
		return err
	}
	if b.layout, err = newLayout(b.size, b.options.Memory); err != nil {
		return err
	}
	if b.device, err = b.options.Driver.Device(d.Index); err != nil {
		return err
	}
	t, err := b.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	if err := b.makeStreams(t); err != nil {
		return err
	}
	if err := b.makeHeap(t); err != nil {
		return err
	}
	if err := b.code.loadMoves(t); err != nil {
		return err
	}
	if b.size > 1 {
		if err := b.meet(ctx, t); err != nil {
			return err
		}
		if err := b.testEdges(ctx, t); err != nil {
			return err
		}
	}
	b.args = newArguments(b)
	b.startWatch()
	return b.group.Err()
}

// makeHeap allocates the heap and fills it as an idle heap is: zeros, and all slots free.
func (b *backend) makeHeap(t cuda.Thread) error {
	var err error
	if b.stop, err = t.AllocHost(stopBytes); err != nil {
		return err
	}
	clear(b.stop.Bytes)
	if b.heap, err = t.Alloc(b.layout.bytes); err != nil {
		return fmt.Errorf("the heap: %w", err)
	}
	s := b.streams.setup.stream
	if err := t.Set8(b.heap, 0, b.layout.bytes, s); err != nil {
		return err
	}
	free := b.heap + cuda.Pointer(b.layout.freeWords())
	if err := t.Set32(free, 1, b.layout.numWords()/2, s); err != nil {
		return err
	}
	return t.Synchronize(s)
}

// Close ends what is pending and gives everything back. After a failure nothing waits on the device; else operations get
// a second to end.
func (b *backend) Close() error {
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		return nil
	}
	b.closing = true
	b.mu.Unlock()
	close(b.done)
	b.helpers.Wait()
	if b.device == nil {
		return nil
	}
	t, err := b.device.Enter()
	if err != nil {
		return err
	}
	if b.args != nil && b.peaceful() && !b.idleWithin(t, farewell) {
		b.setStop()
		b.release()
	}
	err = errors.Join(b.drain(t), b.awaitPeers())
	t.Leave()
	return errors.Join(err, b.leaveFamily(b.giveBack))
}

// giveBack frees what the rank has on its device.
func (b *backend) giveBack() error {
	t, err := b.device.Enter()
	if err != nil {
		return err
	}
	errs := []error{b.unmap(t), b.code.unload(t)}
	if b.heap != 0 {
		errs = append(errs, t.Free(b.heap))
	}
	if b.stop != nil {
		errs = append(errs, t.FreeHost(b.stop))
	}
	errs = append(errs, b.freeStreams(t), b.marks.free(t), b.ends.free(t))
	t.Leave()
	return errors.Join(append(errs, b.device.Close())...)
}

// drain waits until nothing of the backend runs on the device.
func (b *backend) drain(t cuda.Thread) error {
	var errs []error
	for _, s := range b.busyStreams() {
		errs = append(errs, b.idle(t, s))
	}
	return errors.Join(errs...)
}

// idleWithin reports whether all operations end in time.
func (b *backend) idleWithin(t cuda.Thread, limit time.Duration) bool {
	for n, end := 0, time.Now().Add(limit); time.Now().Before(end); n++ {
		if b.quiet(t) {
			return true
		}
		pause(n)
	}
	return false
}

// idle waits for a stream that no longer waits for a peer.
func (b *backend) idle(t cuda.Thread, s cuda.Stream) error {
	for n, end := 0, time.Now().Add(patience); ; n++ {
		done, err := t.StreamDone(s)
		if done || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("a stream of %v is still busy after %v", b.device, patience)
		}
		pause(n)
	}
}

// patience bounds the wait for a device whose kernels were told to stop.
const patience = 5 * time.Second

const stopBytes = kernels.StopBytes
