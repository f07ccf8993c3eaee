package peer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

func init() { pg.RegisterBackend(colligo.CUDA, open) }

// backend is one rank's part of a group on one device.
type backend struct {
	group        *pg.Group
	rank, size   int
	options      Options
	rules        [plan.Scatter + 1][]Rule // those of options that fit the group, by collective
	layout       layout
	device       *cuda.Device
	heap         cuda.Pointer
	why          string   // the ranks cannot reach one another's memory; empty if they can
	staging      *staging // then
	stage        stage
	known        known
	peers        []mapping // by rank; the own symmetric heap at this rank's place
	processPeers string
	leaving      string    // key of the group's store at which ranks count that leave
	serial       bool      // a kernel may have to end before what is enqueued after it begins; the same on all ranks
	linked       bool      // NVLink everywhere: rows and lines arrive whole
	sentinel     [4]uint32 // a line that has not come
	abort        *cuda.Host
	page         *cuda.Host // through which the host reads tensors
	reading      sync.Mutex // held while page is used
	words        *cuda.Host // what the watchdog sees of the symmetric heap's words
	blind        bool       // it cannot look any more
	code         code
	streams      streams
	args         *arguments

	registered      uint32 // calls of Register so far
	multiprocessors int    // of the smallest device, for collectives: all ranks launch the same grids

	mu           sync.Mutex // held while an operation is enqueued, and by the watchdog
	running      running    // under mu
	block        block
	streamOrders [numQueues]streamOrder
	weight       int // enqueued since the last mark
	throttle     eventRing
	ends         eventRing
	eagerPairs   [maxRanks]eagerPair
	messages     int // of args.mail, to be launched
	timers       timers
	windows      []*window
	watches      [numQueues]watch
	closing      bool // under mu and asking

	asking sync.Mutex // held while ends and timers are recorded or asked, by who may hold mu: never for long, as mu can be

	progress  [numQueues]progress
	abortWord abortWord

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
	var err error
	if b.options, err = optionsOf(ctx); err != nil {
		return err
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
		if b.why, err = b.survey(ctx); err != nil {
			return err
		}
	}
	if b.why == "" {
		if b.layout, err = newLayout(b.size, b.options.Memory); err != nil {
			return fmt.Errorf("%w; %d MiB would do", err, leastMemory(b.size)>>20)
		}
	}
	t, err := b.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	// The first operation may be one that a graph captures.
	return relaxed(t, func() error { return b.openOn(ctx, t) })
}

// openOn makes what the backend has on its device.
func (b *backend) openOn(ctx context.Context, t cuda.Thread) (err error) {
	if err := b.makeStreams(t); err != nil {
		return err
	}
	if b.why != "" {
		return b.openStaged(ctx, t, b.why)
	}
	if err := b.makeHeap(t); err != nil {
		return err
	}
	if b.device.Repeats() {
		b.code.repeats = repeats{wanted: true, with: b.streams.setup.stream}
	}
	if b.code.ahead, err = b.device.LaunchesAhead(); err != nil {
		return err
	}
	b.code.log = b.group.Log().With("group", b.group.Name(), "rank", b.rank, "device", b.device)
	if err := b.code.loadMoves(t); err != nil {
		return err
	}
	if err := b.code.pace(t, b.options.launch); err != nil {
		return err
	}
	if b.size > 1 {
		if err := b.meet(ctx, t); err != nil {
			return err
		}
		if b.why != "" {
			return b.restage(ctx, t, b.why)
		}
		if err := b.testEdges(ctx, t); err != nil {
			return err
		}
	}
	b.sortRules()
	b.args = newArguments(b)
	b.startWatch()
	return b.group.Err()
}

// leastMemory returns with how many bytes, in whole MiB, a symmetric heap can be laid out.
func leastMemory(size int) int {
	for n := 1 << 20; ; n += 1 << 20 {
		if _, err := newLayout(size, n); err == nil {
			return n
		}
	}
}

// makeHeap allocates the symmetric heap and fills it as an idle symmetric heap is: zeros, and all slots of eager buffers free.
func (b *backend) makeHeap(t cuda.Thread) error {
	var err error
	if b.abort, err = t.AllocHost(abortBytes); err != nil {
		return err
	}
	clear(b.abort.Bytes)
	if b.page, err = t.AllocHost(readBytes); err != nil {
		return err
	}
	if b.words, err = t.AllocHost(4 * (b.layout.numWords() + b.layout.numTags())); err != nil {
		return err
	}
	if b.heap, err = t.Alloc(b.layout.bytes); err != nil {
		free, total, err2 := t.MemoryInfo()
		return errors.Join(fmt.Errorf("the group's symmetric heap of %d bytes, with %d of the device's %d bytes free (peer.Options.Memory asks for less): %w",
			b.layout.bytes, free, total, err), err2)
	}
	s := b.streams.setup.stream
	if err := t.Set8(b.heap, 0, b.layout.bytes, s); err != nil {
		return err
	}
	free, n := b.layout.eagerFree()
	if err := t.Set32(b.heap+cuda.Pointer(free), 1, n, s); err != nil {
		return err
	}
	return t.Synchronize(s)
}

// Close ends what is pending and gives everything back. Operations get a second to end; after a failure none waits for a peer.
func (b *backend) Close() error {
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		return nil
	}
	b.asking.Lock()
	b.closing = true
	b.asking.Unlock()
	b.mu.Unlock()
	close(b.done)
	b.helpers.Wait()
	if b.device == nil {
		return nil
	}
	// What belongs to the host and to other ranks of the process is given back even if the device is lost.
	return brief(errors.Join(b.onDevice(b.settleDown), b.staging.end(), b.leaveProcessPeers(b.giveBack)))
}

// onDevice calls f, which is no part of any capture, on a thread of the device.
func (b *backend) onDevice(f func(t cuda.Thread) error) error {
	t, err := b.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	return relaxed(t, func() error { return f(t) })
}

// settleDown ends what is pending, waits until this rank's device is idle, and leaves the peers.
func (b *backend) settleDown(t cuda.Thread) error {
	if b.args != nil && !b.idleWithin(t, farewell) {
		b.setAbort()
		b.release()
	}
	return errors.Join(b.drain(t), b.leavePeers(t))
}

// giveBack frees what the rank has on its device.
func (b *backend) giveBack() error { return errors.Join(b.onDevice(b.giveBackOn), b.device.Close()) }

func (b *backend) giveBackOn(t cuda.Thread) error {
	b.reading.Lock() // until who looks into a tensor is through
	defer b.reading.Unlock()
	errs := []error{b.unmap(t), b.code.unload(t), b.staging.free(t)}
	if b.heap != 0 {
		errs = append(errs, t.Free(b.heap))
	}
	if b.stage.at != 0 {
		errs = append(errs, t.Free(b.stage.at))
	}
	for _, h := range [2]*cuda.Host{b.words, b.page} {
		if h != nil {
			errs = append(errs, t.FreeHost(h))
		}
	}
	if b.abort != nil {
		errs = append(errs, b.freeAbort(t))
	}
	errs = append(errs, b.freeStreams(t), b.throttle.free(t), b.ends.free(t), b.timers.free(t))
	return errors.Join(errs...)
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

const abortBytes = ptx.AbortBytes
