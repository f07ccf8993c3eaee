package cudasim

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
)

// A memory is bytes of one device, or of the host. Processes see it through mappings.
type memory struct {
	id      uint64
	device  int // -1: host
	process int // that took it
	data    []byte
	pages   *devicePages // that hold the data, nil for the host
	shadow  shadow
	refs    int  // mappings and allocation handles
	freed   bool // by the process that took it with MemAlloc: others may not use it any more

	watchers []watcher
}

//go:norace
func (m *memory) host() bool { return m.device < 0 }

func (m *memory) String() string {
	if m.host() {
		return fmt.Sprintf("host memory %d (%d bytes, process %d)", m.id, len(m.data), m.process)
	}
	return fmt.Sprintf("memory %d of device %d (%d bytes, process %d)", m.id, m.device, len(m.data), m.process)
}

// A mapping is memory at an address of one process.
type mapping struct {
	lo, hi  uint64
	memory  *memory
	kind    mappingKind
	context *context // that made it; nil for VMM
	opens   int      // of IPC: how often
	access  uint64   // of VMM: a bit for each device
	id      uint64   // BufferID
}

type mappingKind int

const (
	allocated mappingKind = iota
	opened                // IPC
	virtual               // VMM
	hosted                // MemHostAlloc
	registered
)

// Device addresses are above everything that the machine uses.
const (
	deviceBase = uint64(1) << 56
	deviceSpan = uint64(1) << 44
	guard      = 64 << 10 // between allocations
)

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// newMemory takes bytes of a device, or says that there are not so many; for the host, -1, it takes none.
func (s *Sim) newMemory(p *Process, device, bytes int) *memory {
	s.lastMemory++
	m := &memory{id: s.lastMemory, device: device, process: p.id}
	if device < 0 {
		return m
	}
	d := s.devices[device]
	if bytes > s.config.Memory-d.used {
		return nil
	}
	d.used += bytes
	m.pages, m.shadow = s.pages(bytes), newShadow(bytes)
	m.data = m.pages.bytes[:bytes:bytes]
	return m
}

// drop takes one reference back.
func (s *Sim) drop(m *memory) {
	if m.refs--; m.refs == 0 && !m.host() {
		s.devices[m.device].used -= len(m.data)
		if m.freed {
			delete(s.exports, string(s.token(m)))
			if !s.closed {
				m.pages.empty()
				m.pages.free = true
			}
		}
	}
}

// place finds an address for bytes of memory near the device.
func (s *Sim) place(device, bytes, unit int) uint64 {
	d := s.devices[max(device, 0)]
	at := (d.next + uint64(unit) - 1) / uint64(unit) * uint64(unit)
	d.next = at + uint64(bytes) + guard
	return at
}

func (p *Process) mapMemory(at uint64, bytes int, m *memory, kind mappingKind, c *context) *mapping {
	p.sim.lastMapping++
	m.refs++
	g := &mapping{lo: at, hi: at + uint64(bytes), memory: m, kind: kind, context: c, opens: 1, id: p.sim.lastMapping}
	i, _ := p.search(at)
	p.space = slices.Insert(p.space, i, g)
	return g
}

func (p *Process) unmap(g *mapping) {
	i, _ := p.search(g.lo)
	p.space = slices.Delete(p.space, i, i+1)
	p.past = append(p.past[max(0, len(p.past)-mostPast):], past{g.lo, g.hi, g.memory.String()})
	p.last = nil
	p.sim.drop(g.memory)
}

// A past is memory that was mapped once.
type past struct {
	lo, hi uint64
	memory string
}

const mostPast = 1000 // kept for reports

// search returns the index of the first mapping that ends above at, and whether it has at in it.
//
//go:norace
func (p *Process) search(at uint64) (int, bool) {
	i := 0
	for end := len(p.space); i < end; {
		if mid := (i + end) / 2; p.space[mid].hi <= at {
			i = mid + 1
		} else {
			end = mid
		}
	}
	return i, i < len(p.space) && p.space[i].lo <= at
}

//go:norace
func (p *Process) find(at uint64) *mapping {
	if g := p.last; g != nil && g.lo <= at && at < g.hi {
		return g
	}
	i, ok := p.search(at)
	if !ok {
		return nil
	}
	p.last = p.space[i]
	return p.last
}

// start is the mapping of one kind that begins at an address.
func (p *Process) start(at uint64, kind mappingKind) *mapping {
	if g := p.find(at); g != nil && g.lo == at && g.kind == kind {
		return g
	}
	return nil
}

// A trouble is the reason why an address cannot be reached: the result of an enqueuing call, and the reason in words.
type trouble struct {
	code cuda.Result
	why  string
}

// reach finds the memory that a device of the process reaches at an address.
//
//go:norace
func (p *Process) reach(device int, at uint64, n int) (m *memory, offset int, t *trouble) {
	g := p.find(at)
	if g == nil || uint64(n) > g.hi-at {
		return nil, 0, &trouble{cuda.InvalidValue, p.missing(at, n)}
	}
	if g.memory.freed {
		return nil, 0, &trouble{cuda.InvalidValue, fmt.Sprintf("%v was freed by the process that took it", g.memory)}
	}
	if !p.allowed(device, g) {
		return nil, 0, &trouble{peerAccessNotEnabled, fmt.Sprintf("device %d has no access to %v", device, g.memory)}
	}
	return g.memory, int(at - g.lo), nil
}

//go:norace
func (p *Process) allowed(device int, g *mapping) bool {
	switch g.kind {
	case hosted, registered:
		return true
	case virtual:
		return g.access>>device&1 == 1
	}
	return device == g.memory.device || p.peers[[2]int{device, g.memory.device}]
}

// missing describes the mappings near an address that is not mapped.
func (p *Process) missing(at uint64, n int) string {
	if g := p.find(at); g != nil {
		return fmt.Sprintf("%d bytes end %d bytes behind %v", n, at+uint64(n)-g.hi, g.memory)
	}
	for _, g := range p.past {
		if g.lo <= at && at < g.hi {
			return g.memory + " is freed or unmapped"
		}
	}
	if i, _ := p.search(at); i > 0 && at-p.space[i-1].hi < guard {
		return fmt.Sprintf("it lies %d bytes behind %v", at-p.space[i-1].hi, p.space[i-1].memory)
	}
	return "nothing is mapped there"
}

// address is where p is, as a number.
func address(p unsafe.Pointer) uint64 { return uint64(uintptr(p)) }

func (c *call) memAlloc(bytes int) (cuda.Pointer, cuda.Result) {
	if bytes <= 0 {
		return 0, cuda.InvalidValue
	}
	m := c.sim.newMemory(c.process, c.context.device, bytes)
	if m == nil {
		return 0, cuda.OutOfMemory
	}
	at := c.sim.place(c.context.device, bytes, 512)
	c.process.mapMemory(at, bytes, m, allocated, c.context)
	return cuda.Pointer(at), cuda.Success
}

// memFree waits, as the driver does, until the context has nothing left to do. The context is locked meanwhile.
func (c *call) memFree(p cuda.Pointer) cuda.Result {
	g := c.process.start(uint64(p), allocated)
	if g == nil {
		return cuda.InvalidValue
	}
	if r := c.lockedIn(g.context, func() cuda.Result { return c.idle(g.context) }); r != cuda.Success {
		return r
	}
	if c.process.start(uint64(p), allocated) != g {
		return cuda.InvalidValue
	}
	c.checkUnmapped(g.memory)
	g.memory.freed = true
	c.takeAway(g)
	return cuda.Success
}

// checkUnmapped finds memory that is freed while another process has it mapped by IPC, which CUDA leaves undefined. Where a
// process was killed its peers wait for it in vain, and then perhaps not for one another: nothing is reported any more.
func (c *call) checkUnmapped(m *memory) {
	if m.refs == 1 || c.sim.killed {
		return
	}
	for _, p := range c.sim.processes {
		for _, g := range p.space {
			if g.memory == m && g.kind == opened {
				c.sim.fault(strings.TrimSuffix(fmt.Sprintf("process %d frees %v, which process %d has mapped by IPC\n%s", c.process.id, m, p.id,
					stack(callStack(), "    ")), "\n"))
				return
			}
		}
	}
}

// takeAway unmaps at the host's wish. The accesses of the process's devices through the mapping must be over as far as the
// host knows. It is not enough that they happen to have run.
func (c *call) takeAway(g *mapping) {
	p := c.process
	t := touch{sim: c.sim, by: &p.host.actor, memory: g.memory}
	t.access = access{&origin{name: c.function, process: p.id, device: -1, pcs: callStack()}, int32(t.by.slot), t.by.epoch, -1, plain}
	pending := func(a *access) bool {
		if a.by == nil || a.by.process != p.id {
			return false
		}
		x := p.contexts[a.by.device]
		return x != nil && x.sticky == cuda.Success && !t.after(a)
	}
	g.memory.shadow.visit(0, len(g.memory.data), func(o *cell, lo, hi int) *cell {
		if o == nil {
			return o
		}
		if pending(&o.write) {
			c.sim.race(o.write, t.access, true, true, g.memory, lo, hi)
		}
		for i := range o.reads {
			if pending(&o.reads[i]) {
				c.sim.race(o.reads[i], t.access, false, true, g.memory, lo, hi)
			}
		}
		return o
	})
	p.unmap(g)
}

func (c *call) memGetInfo() (free, total uint64, r cuda.Result) {
	total = uint64(c.sim.config.Memory)
	return total - uint64(c.sim.devices[c.context.device].used), total, cuda.Success
}

func (c *call) pointerGetAttribute(a cuda.PointerAttribute, at cuda.Pointer) (uint64, cuda.Result) {
	g := c.process.find(uint64(at))
	if g == nil {
		return 0, cuda.InvalidValue
	}
	host := g.memory.host()
	switch a {
	case cuda.PointerContext:
		if g.context == nil {
			return 0, cuda.Success
		}
		return uint64(g.context.handle), cuda.Success
	case cuda.PointerMemoryType:
		if host {
			return cuda.MemoryTypeHost, cuda.Success
		}
		return cuda.MemoryTypeDevice, cuda.Success
	case cuda.PointerBufferID:
		return g.id, cuda.Success
	case cuda.PointerDevice:
		return c.ordinal(g), cuda.Success
	case cuda.PointerIPC:
		if g.kind == allocated {
			return 1, cuda.Success
		}
		return 0, cuda.Success
	case cuda.PointerRangeStart:
		return g.lo, cuda.Success
	case cuda.PointerRangeSize:
		return g.hi - g.lo, cuda.Success
	}
	return 0, cuda.InvalidValue
}

func (c *call) ordinal(g *mapping) uint64 {
	device := g.memory.device
	if device < 0 {
		device = g.context.device
	}
	return uint64(max(slices.Index(c.process.visible, device), 0))
}
