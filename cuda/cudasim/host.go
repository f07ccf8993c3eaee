package cudasim

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
)

const hostPage = 4096

// memHostAlloc takes Go memory. Devices see it at the host's address, as they do with unified addressing.
func (c *call) memHostAlloc(bytes int, _ cuda.HostFlags) (unsafe.Pointer, cuda.Result) {
	if bytes <= 0 {
		return nil, cuda.InvalidValue
	}
	m := c.sim.newMemory(c.process, -1, 0)
	room := make([]byte, roundUp(bytes, 8)+hostPage)
	skip := int(-address(unsafe.Pointer(&room[0])) & (hostPage - 1))
	m.data = room[skip : skip+bytes : skip+bytes]
	m.shadow = newShadow(bytes)
	p := unsafe.Pointer(&m.data[0])
	c.process.mapMemory(address(p), bytes, m, hosted, c.context)
	return p, cuda.Success
}

// memFreeHost waits as memFree does. It is stricter than the driver: the host gains no knowledge by it.
func (c *call) memFreeHost(p unsafe.Pointer) cuda.Result {
	g := c.process.start(address(p), hosted)
	if g == nil {
		return cuda.InvalidValue
	}
	if r := c.lockedIn(c.context, func() cuda.Result { return c.until(c.tails(c.context), c.context.idle()) }); r != cuda.Success {
		return r
	}
	if c.process.start(address(p), hosted) != g {
		return cuda.InvalidValue
	}
	c.takeAway(g)
	return cuda.Success
}

// memHostRegister maps memory that is there. Memory that several processes register at the same address is one memory. The
// same memory at two addresses is two memories: order between accesses to one is none between accesses to the other.
func (c *call) memHostRegister(p unsafe.Pointer, bytes int, _ cuda.HostFlags) cuda.Result {
	if p == nil || bytes <= 0 {
		return cuda.InvalidValue
	}
	at := address(p)
	if i, in := c.process.search(at); in || i < len(c.process.space) && c.process.space[i].lo < at+uint64(bytes) {
		return hostMemoryAlreadyRegistered
	}
	m := c.sim.registeredAt(at, bytes)
	if m == nil {
		m = c.sim.newMemory(c.process, -1, 0)
		m.data = unsafe.Slice((*byte)(p), bytes)
		m.shadow = newShadow(bytes)
	}
	c.process.mapMemory(at, bytes, m, registered, c.context)
	return cuda.Success
}

func (s *Sim) registeredAt(at uint64, bytes int) *memory {
	for _, p := range s.processes {
		if g := p.start(at, registered); g != nil && len(g.memory.data) == bytes {
			return g.memory
		}
	}
	return nil
}

func (c *call) memHostUnregister(p unsafe.Pointer) cuda.Result {
	g := c.process.start(address(p), registered)
	if g == nil {
		return hostMemoryNotRegistered
	}
	c.takeAway(g)
	return cuda.Success
}

func (c *call) memHostGetDevicePointer(p unsafe.Pointer) (cuda.Pointer, cuda.Result) {
	g := c.process.find(address(p))
	if g == nil || !g.memory.host() {
		return 0, cuda.InvalidValue
	}
	return cuda.Pointer(address(p)), cuda.Success
}

// HostWrite tells the race detector that host code of the process writes pinned memory now. It cannot see other accesses of the host.
func (p *Process) HostWrite(b []byte) {
	if len(b) == 0 {
		return
	}
	p.sim.lock()
	defer p.sim.unlock()
	at := address(unsafe.Pointer(&b[0]))
	m, offset, t := p.reach(0, at, len(b))
	if t != nil {
		panic("cudasim: HostWrite: " + t.why)
	}
	p.host.touched = true
	w := accessor{actor: &p.host.actor, origin: &origin{name: "HostWrite", process: p.id, device: -1, pcs: callStack()}, block: -1}
	p.sim.touch(w, m, offset, len(b), plain, true, nil)
}
