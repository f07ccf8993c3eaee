// Package ncclsim is NCCL's table of functions without NCCL and without a GPU, over the devices of package cudasim. Tests of the
// nccl backend run on it.
//
// An operation copies its input to pinned memory, tells the host, waits for the host, and copies the output back. The host
// computes when all ranks of the communicator have come so far. A group of calls waits for all of its calls together.
//
// Invariants:
//
//  1. Collectives of a communicator meet in the order of their calls; messages of a pair of ranks in that of theirs. Captured calls meet
//     in the order of their capture, and once for each launch of their graphs.
//  2. A rank that aborts releases its own streams and no peer's, as with NCCL.
//  3. All ranks live in this process, each on a device of its own. They may be of several simulated processes. Groups of calls are told
//     apart by thread.
//  4. A function that comes with a later version is not there.
//  5. The last rank of a process that destroys its communicator waits until the devices of the process's ranks are idle. NCCL frees
//     their memory then.
//  6. A process that is killed tells its peers nothing: their calls wait for its calls until they are aborted.
package ncclsim

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/nccl"
)

// Version is the version that a Sim says it has, unless WithVersion says another.
const Version = 22809

// Sim is one simulated library. Its ranks may share it or have one each, as long as all have the same Sim.
type Sim struct {
	driver  *cuda.Driver
	version int

	mu       sync.Mutex
	changed  *sync.Cond
	numbers  uintptr // of handles
	worlds   map[nccl.UniqueID]*world
	comms    map[nccl.CommHandle]*comm
	factors  map[nccl.Op]factor // of premultiplied sums
	configs  []nccl.Config
	groups   map[uint64]*group // by thread
	pages    map[*cuda.Device][]*cuda.Host
	memory   map[cuda.Pointer]*cuda.Device // of ncclMemAlloc
	calls    []string
	parts    map[int][]Split // by rank of the parent
	captures map[int]int     // by rank
	faults   map[string]nccl.Result
	hangs    map[string]int // how many calls of a function are to hang, or do
	last     string         // the last error
	closing  bool
	running  sync.WaitGroup
}

// New returns a library of some version for the devices of a driver.
func New(d *cuda.Driver, version int) *Sim {
	s := &Sim{driver: d, version: version, worlds: map[nccl.UniqueID]*world{}, comms: map[nccl.CommHandle]*comm{},
		factors: map[nccl.Op]factor{}, groups: map[uint64]*group{}, pages: map[*cuda.Device][]*cuda.Host{},
		memory: map[cuda.Pointer]*cuda.Device{}, captures: map[int]int{}, parts: map[int][]Split{}, faults: map[string]nccl.Result{}, hangs: map[string]int{}}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// SetVersion makes the simulated library one of another version. It is called before Library.
func (s *Sim) SetVersion(version int) { s.version = version }

// Library returns the simulated library.
func (s *Sim) Library() (*nccl.Library, error) { return s.LibraryOf(s.driver) }

// LibraryOf returns the simulated library as a simulated process has it, whose driver is given.
func (s *Sim) LibraryOf(d *cuda.Driver) (*nccl.Library, error) {
	return nccl.New("simulated", s.table(d))
}

// Kill ends what a simulated process has under way here, before cudasim kills it. Its peers hear nothing of it. A call of its ranks that
// still waits for its input never meets a peer's call.
func (s *Sim) Kill(d *cuda.Driver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.comms {
		if c.device.Driver() == d {
			c.aborted = true
		}
	}
	for at := range s.pages {
		if at.Driver() == d {
			delete(s.pages, at) // its memory goes with the process
		}
	}
	s.changed.Broadcast()
}

// Calls returns the functions that were called, in their order.
func (s *Sim) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Configs returns the configurations of the communicators that were made with one, in their order.
func (s *Sim) Configs() []nccl.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.configs)
}

// Split is what one rank has given to ncclCommSplit. Size is that of the communicator that was split.
type Split struct{ Size, Color, Key int }

// Splits returns the splits of communicators by a rank of them, in their order.
func (s *Sim) Splits(rank int) []Split {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.parts[rank])
}

// Fail has the next call of a function end with a result, without any effect.
func (s *Sim) Fail(function string, r nccl.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[function] = r
}

// Launch stands for a collective or a message outside a group, as the function that hangs.
const Launch = "a launch"

// Hang has the next call of a function hang. A call that blocks returns when its communicator is aborted, or by Release. A
// communicator that does not block stays in progress instead, until it is aborted or released. The function is that of a communicator,
// ncclGroupEnd, or Launch.
func (s *Sim) Hang(function string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs[function]++
}

// Release lets calls go on that hang.
func (s *Sim) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
}

// release ends all hangs. The caller holds the lock.
func (s *Sim) release() {
	clear(s.hangs)
	for _, c := range s.comms {
		c.stuck = false
	}
	s.changed.Broadcast()
}

// hang holds a call up, if it is to hang. It reports whether the call goes on in the background, as that of a communicator that does
// not block. The communicator may be nil. The caller holds s.mu.
func (s *Sim) hang(function string, c *comm) (background bool) {
	if s.hangs[function] == 0 {
		return false
	}
	if c != nil && c.nonBlocking && function != "ncclCommAbort" {
		s.hangs[function]--
		c.stuck = true
		return true
	}
	for s.hangs[function] > 0 && (c == nil || !c.aborted) {
		s.changed.Wait()
	}
	return false
}

// Break gives the communicators of a rank an error in the background.
func (s *Sim) Break(rank int, r nccl.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.comms {
		if c.rank == rank {
			c.async = r
		}
	}
}

// Close gives pinned memory back. No operation is pending any more. Calls that hang go on, and graphs with captured calls are not launched
// any more.
func (s *Sim) Close() error {
	s.mu.Lock()
	s.release()
	s.closing = true
	s.mu.Unlock()
	s.running.Wait()
	s.mu.Lock()
	all := s.pages
	s.pages = nil
	s.mu.Unlock() // what frees pinned memory waits for the device, and an abort that goes on needs the lock
	var first error
	for d, pages := range all {
		t, err := d.Enter()
		if err != nil {
			return err
		}
		for _, p := range pages {
			if err := t.FreeHost(p); err != nil && first == nil {
				first = err
			}
		}
		t.Leave()
		if err := d.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// begin notes a call. It returns a result that ends the call at once, if there is one.
func (s *Sim) begin(function string) nccl.Result {
	s.calls = append(s.calls, function)
	r := s.faults[function]
	delete(s.faults, function)
	if r != nccl.Success {
		s.last = "simulated fault of " + function
	}
	return r
}

// world is the ranks of one communicator.
type world struct {
	size, joined int
	collectives  map[uint64]*meeting
	messages     map[lane]*message
	splits       map[int]*splitting
	shrinks      map[int]*splitting
	windows      map[int]int // how many ranks have come to a registration
	processes    map[*cuda.Driver]*inProcess
}

// inProcess is the ranks of a communicator in one process.
type inProcess struct {
	present int // ranks whose communicator is neither destroyed nor aborted
	devices []*cuda.Device
}

// splitting is what the ranks of a split meet in.
type splitting struct {
	colors, keys []int
	come         int
	ids          map[int]nccl.UniqueID // by color
}

// lane is one message of a pair of ranks.
type lane struct {
	from, to int
	number   uint64
}

// message is what a send and a receive meet in.
type message struct {
	data           []byte
	sent, received bool
}

// meeting is what the ranks of a collective meet in.
type meeting struct {
	parts []*call
	come  int
	done  bool
}

// comm is one rank's communicator.
type comm struct {
	handle       nccl.CommHandle
	world        *world
	rank         int
	device       *cuda.Device
	collectives  uint64
	captured     map[lane]uint64 // how many calls were captured, by what meets what
	splits       int
	shrinks      int
	windows      int
	sends, recvs map[int]uint64
	registered   map[nccl.MemoryHandle]bool
	aborted      bool
	released     bool // pending calls wait for nobody
	destroyed    bool
	async        nccl.Result
	nonBlocking  bool
	stuck        bool // in progress until it is aborted or released
	progress     int  // how many times it says that it is in progress
}

// join makes a rank's communicator of a world, in a process with that driver. The caller holds s.mu.
func (s *Sim) join(in *cuda.Driver, id nccl.UniqueID, rank, size int, to *nccl.CommHandle) (*comm, nccl.Result) {
	d, err := s.current(in)
	if err != nil {
		return nil, nccl.UnhandledCudaError
	}
	return s.joinOn(d, id, rank, size, to)
}

// joinOn makes a rank's communicator on a device. The caller holds s.mu.
func (s *Sim) joinOn(d *cuda.Device, id nccl.UniqueID, rank, size int, to *nccl.CommHandle) (*comm, nccl.Result) {
	w := s.worlds[id]
	if w == nil {
		w = &world{size: size, collectives: map[uint64]*meeting{}, messages: map[lane]*message{}, splits: map[int]*splitting{},
			shrinks: map[int]*splitting{}, windows: map[int]int{}, processes: map[*cuda.Driver]*inProcess{}}
		s.worlds[id] = w
	}
	if rank < 0 || rank >= size || w.size != size {
		return nil, nccl.InvalidArgument
	}
	s.numbers++
	c := &comm{handle: nccl.CommHandle(s.numbers), world: w, rank: rank, device: d, sends: map[int]uint64{}, recvs: map[int]uint64{},
		captured: map[lane]uint64{}, registered: map[nccl.MemoryHandle]bool{}}
	s.comms[c.handle] = c
	*to = c.handle
	w.joined++
	p := w.processes[d.Driver()]
	if p == nil {
		p = &inProcess{}
		w.processes[d.Driver()] = p
	}
	p.present, p.devices = p.present+1, append(p.devices, d)
	s.changed.Broadcast()
	return c, nccl.Success
}

// current returns the device whose context is current in a process. The Sim keeps it until Close. The caller holds s.mu.
func (s *Sim) current(in *cuda.Driver) (*cuda.Device, error) {
	at, r := in.CtxGetCurrent()
	if r != cuda.Success {
		return nil, r
	}
	for d := range s.pages {
		if d.Driver() == in && d.Context() == at {
			return d, nil
		}
	}
	n, err := in.Devices()
	for i := 0; i < n && err == nil; i++ {
		var d *cuda.Device
		if d, err = in.Device(i); err != nil {
			break
		}
		if d.Context() == at {
			s.pages[d] = nil
			return d, nil
		}
		err = d.Close()
	}
	if err == nil {
		err = fmt.Errorf("no device has the current context")
	}
	return nil, err
}

// newID returns an identity that no other is equal to, also of another Sim.
func newID() (id nccl.UniqueID) {
	*(*uint64)(unsafe.Pointer(&id)) = identities.Add(1)
	return id
}

var identities atomic.Uint64
