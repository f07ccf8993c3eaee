package cudasim

import "github.com/colligo-go/colligo/cuda"

const granularity = 2 << 20

func (c *call) memGetAllocationGranularity(cuda.DeviceID) (int, cuda.Result) {
	if !c.process.virtualMemory() {
		return 0, cuda.NotSupported
	}
	return granularity, cuda.Success
}

func (p *Process) virtualMemory() bool { return p.sim.attribute(cuda.VirtualMemory) != 0 }

func (c *call) memCreate(bytes int, id cuda.DeviceID) (cuda.Allocation, cuda.Result) {
	device, ok := c.process.device(id)
	switch {
	case !c.process.virtualMemory():
		return 0, cuda.NotSupported
	case !ok:
		return 0, invalidDevice
	case bytes <= 0 || bytes%granularity != 0:
		return 0, cuda.InvalidValue
	}
	m := c.sim.newMemory(c.process, device, bytes)
	if m == nil {
		return 0, cuda.OutOfMemory
	}
	return c.process.hold(m), cuda.Success
}

func (p *Process) hold(m *memory) cuda.Allocation {
	m.refs++
	a := cuda.Allocation(p.sim.handle())
	p.allocations[a] = m
	return a
}

func (c *call) memRelease(a cuda.Allocation) cuda.Result {
	m := c.process.allocations[a]
	if m == nil {
		return cuda.InvalidValue
	}
	delete(c.process.allocations, a)
	c.sim.drop(m)
	return cuda.Success
}

func (c *call) memAddressReserve(bytes int) (cuda.Pointer, cuda.Result) {
	if bytes <= 0 || bytes%granularity != 0 {
		return 0, cuda.InvalidValue
	}
	at := c.sim.place(0, bytes, granularity)
	c.process.reserved[at] = bytes
	return cuda.Pointer(at), cuda.Success
}

func (c *call) memAddressFree(p cuda.Pointer, bytes int) cuda.Result {
	at := uint64(p)
	if n, ok := c.process.reserved[at]; !ok || n != bytes {
		return cuda.InvalidValue
	}
	if i, in := c.process.search(at); in || i < len(c.process.space) && c.process.space[i].lo < at+uint64(bytes) {
		return cuda.InvalidValue
	}
	delete(c.process.reserved, at)
	return cuda.Success
}

// memMap maps the whole of an allocation.
func (c *call) memMap(p cuda.Pointer, bytes int, a cuda.Allocation) cuda.Result {
	at, m := uint64(p), c.process.allocations[a]
	if m == nil || bytes != len(m.data) || at%granularity != 0 || !c.process.inReserved(at, bytes) {
		return cuda.InvalidValue
	}
	if i, in := c.process.search(at); in || i < len(c.process.space) && c.process.space[i].lo < at+uint64(bytes) {
		return alreadyMapped
	}
	c.process.mapMemory(at, bytes, m, virtual, nil)
	return cuda.Success
}

func (p *Process) inReserved(at uint64, bytes int) bool {
	for lo, n := range p.reserved {
		if lo <= at && at+uint64(bytes) <= lo+uint64(n) {
			return true
		}
	}
	return false
}

// memUnmap does not wait: the driver leaves it to the caller that nothing pending needs the mapping.
func (c *call) memUnmap(p cuda.Pointer, bytes int) cuda.Result {
	g := c.process.start(uint64(p), virtual)
	if g == nil || g.hi-g.lo != uint64(bytes) {
		return cuda.InvalidValue
	}
	c.takeAway(g)
	return cuda.Success
}

func (c *call) memSetAccess(p cuda.Pointer, bytes int, id cuda.DeviceID) cuda.Result {
	device, ok := c.process.device(id)
	if !ok {
		return invalidDevice
	}
	g := c.process.start(uint64(p), virtual)
	if g == nil || g.hi-g.lo != uint64(bytes) {
		return cuda.InvalidValue
	}
	if device != g.memory.device && !c.sim.config.CanAccess(device, g.memory.device) {
		return cuda.InvalidValue
	}
	g.access |= 1 << device
	return cuda.Success
}

func (c *call) memExportToShareableHandle(a cuda.Allocation) (int, cuda.Result) {
	m := c.process.allocations[a]
	if m == nil {
		return -1, cuda.InvalidValue
	}
	if c.sim.attribute(cuda.FileDescriptorHandles) == 0 {
		return -1, cuda.NotSupported
	}
	fd, err := makeFD(c.sim.token(m))
	if err != nil {
		c.sim.fault("making the descriptor of " + m.String() + ": " + err.Error())
		return -1, cuda.OutOfMemory
	}
	c.sim.exports[string(c.sim.token(m))] = m
	return fd, cuda.Success
}

func (c *call) memImportFromShareableHandle(fd int) (cuda.Allocation, cuda.Result) {
	var token [tokenBytes]byte
	if err := readFD(fd, token[:]); err != nil {
		return 0, cuda.InvalidValue
	}
	m := c.sim.exports[string(token[:])]
	if m == nil {
		return 0, cuda.InvalidValue
	}
	if m.refs == 0 { // only the descriptor has kept it
		c.sim.devices[m.device].used += len(m.data)
	}
	return c.process.hold(m), cuda.Success
}
