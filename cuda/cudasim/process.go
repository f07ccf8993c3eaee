package cudasim

import (
	"maps"
	"slices"

	"github.com/colligo-go/colligo/cuda"
)

// A Process is one simulated operating system process: it has its own addresses, contexts, handles and peer access.
// Memory reaches others by IPC handles and by descriptors.
type Process struct {
	sim     *Sim
	id      int
	visible []int
	table   *cuda.Driver
	host    *host
	dead    bool

	threads  map[uint64]*thread
	contexts map[int]*context // by device
	peers    map[[2]int]bool  // device to device

	space []*mapping // by address
	past  []past
	last  *mapping // found last

	allocations map[cuda.Allocation]*memory
	reserved    map[uint64]int
	streams     map[cuda.Stream]*stream
	events      map[cuda.Event]*event
	modules     map[cuda.Module]*module
	functions   map[cuda.Function]*function
	graphs      map[cuda.Graph]*graph
	execs       map[cuda.GraphExec]*graphExec
	captures    []*capture

	holder     uint64 // thread whose call blocks with the process locked, 0 for none
	injections []*injection
}

type thread struct {
	context *context
	mode    cuda.CaptureMode
}

// A context is a primary context.
type context struct {
	process *Process
	device  int
	handle  cuda.Context
	retains int
	legacy  *stream
	holder  uint64      // thread whose call blocks with the context locked, 0 for none
	ended   knowledge   // of the streams that are destroyed, at their end
	sticky  cuda.Result // the result of every call from now on
}

func (s *Sim) newProcess(devices []int) *Process {
	if devices == nil {
		for i := range s.devices {
			devices = append(devices, i)
		}
	}
	for _, d := range devices {
		if d < 0 || d >= len(s.devices) {
			panic("cudasim: a process that sees a device which is not there")
		}
	}
	p := &Process{
		sim: s, id: len(s.processes), visible: devices, host: s.host,
		threads: map[uint64]*thread{}, contexts: map[int]*context{}, peers: map[[2]int]bool{},
		allocations: map[cuda.Allocation]*memory{}, reserved: map[uint64]int{},
		streams: map[cuda.Stream]*stream{}, events: map[cuda.Event]*event{}, modules: map[cuda.Module]*module{},
		functions: map[cuda.Function]*function{}, graphs: map[cuda.Graph]*graph{}, execs: map[cuda.GraphExec]*graphExec{},
	}
	if s.config.HostPerProcess {
		p.host = s.newHost()
	}
	p.table = p.driver()
	s.processes = append(s.processes, p)
	return p
}

// Driver returns the process's table, initialized.
func (p *Process) Driver() *cuda.Driver { return p.table }

func (p *Process) thread(id uint64) *thread {
	t := p.threads[id]
	if t == nil {
		t = &thread{}
		p.threads[id] = t
	}
	return t
}

// device translates a device number of the process.
func (p *Process) device(id cuda.DeviceID) (int, bool) {
	if id < 0 || int(id) >= len(p.visible) {
		return 0, false
	}
	return p.visible[id], true
}

func (p *Process) sees(device int) bool { return slices.Contains(p.visible, device) }

// Fail makes the nth call from now of a function of the table, such as "MemAlloc", return r and do nothing. Number 1 is the
// next call; number 0 means every call from now on.
func (p *Process) Fail(function string, n int, r cuda.Result) {
	if _, ok := tableFields()[function]; !ok {
		panic("cudasim: the table has no function " + function)
	}
	p.sim.lock()
	defer p.sim.unlock()
	p.injections = append(p.injections, &injection{function, n, r})
}

type injection struct {
	function string
	left     int
	result   cuda.Result
}

func (p *Process) injected(function string) cuda.Result {
	result := cuda.Success
	p.injections = slices.DeleteFunc(p.injections, func(i *injection) bool {
		if i.function != function {
			return false
		}
		if i.left == 0 {
			result = i.result
			return false
		}
		if i.left--; i.left > 0 {
			return false
		}
		result = i.result
		return true
	})
	return result
}

// Kill ends the process as a signal would. Its calls, waiting ones too, fail from now on. Its kernels stop where they are,
// its streams are dropped, its memory is given back. Memory that others have mapped stays for them.
func (p *Process) Kill() {
	p.sim.lock()
	defer p.sim.unlock()
	if p.dead {
		return
	}
	p.dead, p.sim.killed = true, true
	p.holder = 0
	for _, d := range slices.Sorted(maps.Keys(p.contexts)) {
		p.contexts[d].fail(deinitialized)
	}
	p.contexts = map[int]*context{}
	p.streams, p.events = map[cuda.Stream]*stream{}, map[cuda.Event]*event{}
	p.modules, p.functions = map[cuda.Module]*module{}, map[cuda.Function]*function{}
	p.graphs, p.execs = map[cuda.Graph]*graph{}, map[cuda.GraphExec]*graphExec{}
	for len(p.space) > 0 {
		p.unmap(p.space[0])
	}
	for _, m := range p.allocations {
		p.sim.drop(m)
	}
	p.allocations, p.reserved = map[cuda.Allocation]*memory{}, map[uint64]int{}
	for _, w := range p.sim.waiters {
		if w.process == p {
			w.failed = true
		}
	}
	p.sim.kick()
}

// fail makes the context useless: all its work is dropped, and every call returns r.
func (c *context) fail(r cuda.Result) {
	if c.sticky == cuda.Success {
		c.sticky = r
	}
	c.process.sim.abandon(&c.legacy.queue)
	for _, st := range sortedStreams(c.process) {
		if st.context == c {
			c.process.sim.abandon(&st.queue)
		}
	}
}
