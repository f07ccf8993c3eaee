package nccl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/colligo-go/colligo/cuda"
)

// Comm is one rank's communicator. Its calls are for one goroutine at a time, except Abort and AsyncError.
type Comm struct {
	// Limit bounds the wait for an operation that a communicator that does not block goes on with in the background. 0 is 30 minutes.
	// c10d: TORCH_NCCL_NONBLOCKING_TIMEOUT.
	Limit time.Duration

	library     *Library
	handle      CommHandle
	rank, size  int
	nonBlocking bool
	groups      int           // that are open
	splits      int           // calls of Split
	shrinks     int           // calls of Shrink
	peers       *processPeers // nil if one call has made the communicators of a whole process
	left        sync.Once     // of telling peers that it is destroyed

	asking sync.Mutex // held while the library is asked for errors
	async  Result     // the last answer; of the communicator, so that a question allocates nothing
	gone   bool
}

// NewComm joins a communicator of size ranks on the current device. All ranks call it. It returns when all have, or with
// Config.NonBlocking at once, and Settle waits then.
func (l *Library) NewComm(id *UniqueID, rank, size int, config Config) (*Comm, error) {
	c := &Comm{library: l, rank: rank, size: size, nonBlocking: config.NonBlocking}
	if config == (Config{}) {
		return c, c.made(string(id[:]), func() error {
			return l.check("ncclCommInitRank", l.table.CommInitRank(&c.handle, size, id, rank), 0)
		})
	}
	raw, err := config.raw(l)
	err = errors.Join(err, l.has("ncclCommInitRankConfig", l.table.CommInitRankConfig != nil))
	if err != nil {
		return nil, err
	}
	return c, c.made(string(id[:]), func() error {
		return c.begun("ncclCommInitRankConfig", l.table.CommInitRankConfig(&c.handle, size, id, rank, raw))
	})
}

// NewCommScalable joins a communicator that has several identities, each made by another rank. Large communicators form faster
// so. Otherwise it does what NewComm does.
func (l *Library) NewCommScalable(ids []UniqueID, rank, size int, config Config) (*Comm, error) {
	raw, err := config.raw(l)
	err = errors.Join(err, l.has("ncclCommInitRankScalable", l.table.CommInitRankScalable != nil))
	if err != nil {
		return nil, err
	}
	c := &Comm{library: l, rank: rank, size: size, nonBlocking: config.NonBlocking}
	return c, c.made(string(ids[0][:]), func() error {
		return c.begun("ncclCommInitRankScalable", l.table.CommInitRankScalable(&c.handle, size, rank, ids, raw))
	})
}

// NewComms makes the communicators of all devices of one process, one rank each in the order of the devices.
func (l *Library) NewComms(devices []int) ([]*Comm, error) {
	handles, on := make([]CommHandle, len(devices)), make([]int32, len(devices))
	for i, d := range devices {
		on[i] = int32(d)
	}
	if err := l.check("ncclCommInitAll", l.table.CommInitAll(handles, on), 0); err != nil {
		return nil, err
	}
	all := make([]*Comm, len(devices))
	for i, h := range handles {
		all[i] = &Comm{library: l, handle: h, rank: i, size: len(devices)}
	}
	return all, nil
}

// NoColor as the color of Split makes no communicator for this rank.
const NoColor = -1

// Split makes a communicator of the ranks with one color, in the order of their keys. All ranks call it. With NoColor the
// result is nil. The zero configuration is that of this communicator.
func (c *Comm) Split(color, key int, config Config) (*Comm, error) {
	l := c.library
	var raw *RawConfig
	var err error
	if config != (Config{}) {
		raw, err = config.raw(l)
	} else {
		config.NonBlocking = c.nonBlocking
	}
	err = errors.Join(err, l.has("ncclCommSplit", l.table.CommSplit != nil))
	if err != nil {
		return nil, err
	}
	part := &Comm{library: l, nonBlocking: config.NonBlocking}
	err = part.made(c.nameOfSplit(color), func() error {
		return c.begun("ncclCommSplit", l.table.CommSplit(c.handle, color, key, &part.handle, raw))
	})
	if err != nil || color == NoColor {
		return nil, err
	}
	return part, part.ask()
}

// ShrinkAbort has Shrink end what is pending on the parent, for a rank of it has failed.
const ShrinkAbort = 1

// Shrink makes a communicator without some ranks. The other ranks call it.
func (c *Comm) Shrink(without []int, config Config, flags int) (*Comm, error) {
	l := c.library
	raw, err := config.raw(l)
	err = errors.Join(err, l.has("ncclCommShrink", l.table.CommShrink != nil))
	if err != nil {
		return nil, err
	}
	gone := make([]int32, len(without))
	for i, r := range without {
		gone[i] = int32(r)
	}
	part := &Comm{library: l, nonBlocking: config.NonBlocking}
	err = part.made(c.nameOfShrink(), func() error {
		return c.begun("ncclCommShrink", l.table.CommShrink(c.handle, gone, &part.handle, raw, flags))
	})
	if err != nil {
		return nil, err
	}
	return part, part.ask()
}

// ask learns rank and size of a communicator that the library has made. One that does not block may not know them yet.
func (c *Comm) ask() error {
	if c.nonBlocking {
		return nil
	}
	return c.learn()
}

func (c *Comm) learn() error {
	var rank, size int32
	l := c.library
	err := errors.Join(l.check("ncclCommUserRank", l.table.CommUserRank(c.handle, &rank), c.handle),
		l.check("ncclCommCount", l.table.CommCount(c.handle, &size), c.handle))
	c.asking.Lock() // Dump may ask meanwhile
	defer c.asking.Unlock()
	c.rank, c.size = int(rank), int(size)
	return err
}

// begun takes the result of a call that may go on in the background.
func (c *Comm) begun(function string, r Result) error {
	if r == InProgress && c.nonBlocking {
		return nil
	}
	return c.library.check(function, r, c.handle)
}

// Rank and Size are the communicator's.
func (c *Comm) Rank() int { return c.rank }

// Size returns the number of ranks.
func (c *Comm) Size() int { return c.size }

// Device returns the number of the communicator's device.
func (c *Comm) Device() (int, error) {
	var n int32
	err := c.library.check("ncclCommCuDevice", c.library.table.CommCuDevice(c.handle, &n), c.handle)
	return int(n), err
}

// AsyncError returns an error that the library has met in the background, nil if there is none. InProgress is no error.
func (c *Comm) AsyncError() error {
	_, err := c.poll()
	return err
}

// background takes the place of a function in errors that the library has met in the background.
const background = "in the background"

// poll asks how the communicator stands. One that is aborted has an error.
func (c *Comm) poll() (busy bool, err error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	if c.gone {
		return false, errAborted
	}
	if err := c.library.check("ncclCommGetAsyncError", c.library.table.CommGetAsyncError(c.handle, &c.async), c.handle); err != nil {
		return false, err
	}
	if c.async == InProgress {
		return true, nil
	}
	return false, c.library.check(background, c.async, c.handle)
}

var errAborted = errors.New("nccl: the communicator was aborted")

// Settle returns when the calls of a communicator that does not block are through, or with their error. It looks every
// millisecond at most, until the context ends.
func (c *Comm) Settle(ctx context.Context) error {
	return c.settle(ctx, func() error { return nil })
}

// settle returns early when failed has an error, too.
func (c *Comm) settle(ctx context.Context, failed func() error) error {
	if !c.nonBlocking {
		return nil
	}
	through, err := c.quickly()
	for pause := 10 * time.Microsecond; ; pause = min(2*pause, time.Millisecond) {
		if through || err != nil {
			return err
		}
		if err := failed(); err != nil {
			return fmt.Errorf("nccl: the communicator is in progress: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("nccl: the communicator is in progress: %w", context.Cause(ctx))
		case <-time.After(pause):
		}
		through, err = c.through()
	}
}

// A communicator is asked for quickWait before the first sleep, which takes as long. Between the questions no other goroutine gets its turn.
// The caller is locked to its thread, which the system would have to put to sleep and wake again for each of them.
const quickWait = 100 * time.Microsecond

// quickly asks a communicator for some time. It reports whether the calls are through.
func (c *Comm) quickly() (through bool, err error) {
	var begin time.Time
	for polls := 1; ; polls++ {
		if through, err := c.through(); through || err != nil {
			return through, err
		}
		switch {
		case polls%16 != 0: // a question costs no more than the clock
		case begin.IsZero():
			begin = time.Now()
		case time.Since(begin) > quickWait:
			return false, nil
		}
	}
}

// through asks a communicator once.
func (c *Comm) through() (bool, error) {
	busy, err := c.poll()
	if busy || err != nil {
		return false, err
	}
	if c.size == 0 { // the call that made it could not know yet
		return true, c.learn()
	}
	return true, nil
}

// nonBlockingLimit is c10d's.
const nonBlockingLimit = 30 * time.Minute

// enqueued takes the result of an operation.
func (c *Comm) enqueued(function string, r Result) error {
	if r == Success {
		return nil
	}
	return c.await(function, r)
}

// await takes the result of an operation that is not through, or has failed. Outside a group it waits until the library is through, for the
// communicator takes no other operation before.
func (c *Comm) await(function string, r Result) error {
	if r != InProgress || !c.nonBlocking {
		return c.library.check(function, r, c.handle)
	}
	if c.groups > 0 {
		return nil
	}
	through, err := c.quickly()
	if !through && err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(c.Limit, nonBlockingLimit))
		defer cancel()
		err = c.Settle(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", function, err)
	}
	return nil
}

// GroupStart begins a group of calls of this thread, which are launched together by GroupEnd. Groups nest.
func (c *Comm) GroupStart() error {
	err := c.library.GroupStart()
	if err == nil {
		c.groups++
	}
	return err
}

// GroupEnd launches the calls of the group. A communicator that does not block waits until they are launched.
func (c *Comm) GroupEnd() error {
	c.groups--
	return c.enqueued("ncclGroupEnd", c.library.table.GroupEnd())
}

// Finalize has the communicator end its calls. All ranks call it, and Close after it.
func (c *Comm) Finalize() error {
	l := c.library
	if err := l.has("ncclCommFinalize", l.table.CommFinalize != nil); err != nil {
		return err
	}
	return c.begun("ncclCommFinalize", l.table.CommFinalize(c.handle))
}

// Close destroys the communicator. All ranks call it.
func (c *Comm) Close() error {
	defer c.leave()
	return c.begun("ncclCommDestroy", c.library.table.CommDestroy(c.handle))
}

// Abort destroys the communicator without the others, and ends what is pending on it. It may be called while another
// goroutine is in a call of the communicator, or waits for one. No call may come later.
func (c *Comm) Abort() error {
	defer c.leave()
	c.asking.Lock() // until the library has answered; from here on nobody asks it
	c.gone = true
	c.asking.Unlock()
	return c.begun("ncclCommAbort", c.library.table.CommAbort(c.handle))
}

// Registration is memory that the library knows. Close ends it.
type Registration struct {
	comm   *Comm
	handle MemoryHandle
	window WindowHandle
}

// Register tells the library that memory will be used often, so that it may map it.
func (c *Comm) Register(at cuda.Pointer, bytes int) (*Registration, error) {
	l := c.library
	if err := l.has("ncclCommRegister", l.table.CommRegister != nil); err != nil {
		return nil, err
	}
	r := &Registration{comm: c}
	return r, l.check("ncclCommRegister", l.table.CommRegister(c.handle, at, bytes, &r.handle), c.handle)
}

// RegisterWindow makes memory of all ranks known to one another. All ranks call it together, with as many bytes of memory
// from MemAlloc.
func (c *Comm) RegisterWindow(at cuda.Pointer, bytes, flags int) (*Registration, error) {
	l := c.library
	if err := l.has("ncclCommWindowRegister", l.table.CommWindowRegister != nil); err != nil {
		return nil, err
	}
	r := &Registration{comm: c}
	return r, c.begun("ncclCommWindowRegister", l.table.CommWindowRegister(c.handle, at, bytes, &r.window, flags))
}

// Close ends the registration, while the communicator is there.
func (r *Registration) Close() error {
	c, l := r.comm, r.comm.library
	if r.window != 0 {
		return l.check("ncclCommWindowDeregister", l.table.CommWindowDeregister(c.handle, r.window), c.handle)
	}
	return l.check("ncclCommDeregister", l.table.CommDeregister(c.handle, r.handle), c.handle)
}

// MemAlloc returns memory of the current device that the library can register best. MemFree gives it back.
func (l *Library) MemAlloc(bytes int) (at cuda.Pointer, err error) {
	if err := l.has("ncclMemAlloc", l.table.MemAlloc != nil); err != nil {
		return 0, err
	}
	err = l.check("ncclMemAlloc", l.table.MemAlloc(&at, bytes), 0)
	return at, err
}

// MemFree gives memory of MemAlloc back.
func (l *Library) MemFree(at cuda.Pointer) error {
	if err := l.has("ncclMemFree", l.table.MemFree != nil); err != nil {
		return err
	}
	return l.check("ncclMemFree", l.table.MemFree(at), 0)
}
