package cudasim

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/colligo-go/colligo/cuda"
)

// A Sim is a machine with devices, and the processes that use them. Its methods may be called from any goroutine, but
// not from kernels.
type Sim struct {
	config Config

	gate, mu sync.Mutex // gate keeps the executor, which takes mu again and again, from starving the host
	random   *rand.Rand

	devices   []*device
	processes []*Process
	kernels   map[kernelKey]*kernel
	exports   map[string]*memory // by token
	taken     []*devicePages     // until Close
	host      *host              // of all processes, unless each has its own

	touching      touch                       // the touch under way, if there is one
	reads, writes func(*cell, int, int) *cell // of touching
	races         raceSet
	faults        []string
	leaks         []string // of contexts that are gone
	killed        bool     // a process was

	lastHandle              uintptr
	destroyed               map[cuda.Stream]int // streams, with the number of the process that had each
	lastMemory, lastMapping uint64
	slots                   int

	executor
}

type device struct {
	used    int          // bytes
	next    uint64       // address
	threads int          // of blocks that run
	waiting []*blockTask // blocks that have not begun
}

// New makes a machine. It is to be closed, by Check or by Close.
func New(config Config) *Sim {
	config = config.withDefaults()
	s := &Sim{
		config: config, random: rand.New(rand.NewPCG(config.Seed, 0x636f6c6c69676f)),
		kernels: map[kernelKey]*kernel{}, exports: map[string]*memory{}, lastHandle: 0x1000, destroyed: map[cuda.Stream]int{},
	}
	s.touching.sim = s
	s.reads, s.writes = s.touching.read, s.touching.overwrite
	s.races.seen = map[string]bool{}
	s.executor.init()
	s.host = s.newHost()
	for i := range config.Devices {
		s.devices = append(s.devices, &device{next: deviceBase + uint64(i)*deviceSpan})
	}
	s.progress, s.lastCall = time.Now(), time.Now()
	return s
}

// lock is for everyone but the executor between two steps.
func (s *Sim) lock() {
	s.gate.Lock()
	s.mu.Lock()
	s.gate.Unlock()
}

func (s *Sim) unlock() { s.mu.Unlock() }

func (s *Sim) handle() uintptr {
	s.lastHandle += 0x10
	return s.lastHandle
}

func (s *Sim) newActor() actor {
	s.slots++
	return actor{slot: s.slots - 1, epoch: 1}
}

func (s *Sim) fault(text string) { s.faults = append(s.faults, text) }

// Faults returns what went wrong so far other than races. These are accesses to memory that is not there, and memory freed
// while another process has it mapped. Kernels that panicked, deadlocks, and entry points without model kernels are faults,
// too.
func (s *Sim) Faults() []string {
	s.lock()
	defer s.unlock()
	return append([]string(nil), s.faults...)
}

// Driver returns the table of the first process, which it makes on the first call.
func (s *Sim) Driver() *cuda.Driver {
	s.lock()
	if len(s.processes) == 0 {
		s.newProcess(nil)
	}
	p := s.processes[0]
	s.unlock()
	return p.Driver()
}

// Process makes one more process. It sees the given devices, in that order, or all if none are given.
func (s *Sim) Process(devices ...int) *Process {
	s.lock()
	defer s.unlock()
	return s.newProcess(devices)
}

// Processes returns the processes made so far.
func (s *Sim) Processes() []*Process {
	s.lock()
	defer s.unlock()
	return slices.Clone(s.processes)
}

// Meet says that all processes have met: what each has seen completed is over for all.
func (s *Sim) Meet() {
	s.lock()
	defer s.unlock()
	all := knowledge{}
	for _, p := range s.processes {
		all.merge(p.host.know())
	}
	for _, p := range s.processes {
		p.host.merge(all.freeze())
	}
}

// A host is the host code of one process, or of all.
type host struct {
	actor
	touched bool // it has accesses of its own
}

func (s *Sim) newHost() *host { return &host{actor: s.newActor()} }

// know returns what is over for what the host does next.
func (h *host) know() knowledge {
	if h.touched {
		h.hb.raise(h.slot, h.epoch)
		h.seen.raise(h.slot, h.epoch)
		h.epoch++
	}
	return h.freeze()
}
