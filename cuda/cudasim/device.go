package cudasim

import (
	"fmt"
	"maps"

	"github.com/colligo-go/colligo/cuda"
)

const driverVersion = 13000

func (s *Sim) attribute(a cuda.Attribute) int {
	if v, ok := s.config.Attributes[a]; ok {
		return v
	}
	return map[cuda.Attribute]int{
		cuda.MultiprocessorCount: 132, cuda.AsyncEngineCount: 3, cuda.UnifiedAddressing: 1,
		cuda.ComputeCapabilityMajor: s.config.Capability[0], cuda.ComputeCapabilityMinor: s.config.Capability[1],
		cuda.VirtualMemory: 1, cuda.FileDescriptorHandles: descriptors,
	}[a]
}

func (c *call) deviceGet(ordinal int) (cuda.DeviceID, cuda.Result) {
	if ordinal < 0 || ordinal >= len(c.process.visible) {
		return 0, invalidDevice
	}
	return cuda.DeviceID(ordinal), cuda.Success
}

func (c *call) deviceGetUUID(id cuda.DeviceID) (u [16]byte, r cuda.Result) {
	d, ok := c.process.device(id)
	if !ok {
		return u, invalidDevice
	}
	copy(u[:], "colligo-cudasim")
	u[15] = byte(d)
	return u, cuda.Success
}

func (c *call) deviceGetPCIBusID(id cuda.DeviceID) (string, cuda.Result) {
	d, ok := c.process.device(id)
	if !ok {
		return "", invalidDevice
	}
	return fmt.Sprintf("0000:%02x:00.0", 0x10+d), cuda.Success
}

func (c *call) deviceGetAttribute(a cuda.Attribute, id cuda.DeviceID) (int, cuda.Result) {
	if _, ok := c.process.device(id); !ok {
		return 0, invalidDevice
	}
	return c.sim.attribute(a), cuda.Success
}

func (c *call) pair(id, peer cuda.DeviceID) (from, to int, r cuda.Result) {
	from, ok := c.process.device(id)
	to, also := c.process.device(peer)
	if !ok || !also {
		return 0, 0, invalidDevice
	}
	return from, to, cuda.Success
}

func (c *call) deviceCanAccessPeer(id, peer cuda.DeviceID) (bool, cuda.Result) {
	from, to, r := c.pair(id, peer)
	if r != cuda.Success {
		return false, r
	}
	return from != to && c.sim.config.CanAccess(from, to), cuda.Success
}

func (c *call) deviceGetP2PAttribute(a cuda.P2PAttribute, src, dst cuda.DeviceID) (int, cuda.Result) {
	from, to, r := c.pair(src, dst)
	switch {
	case r != cuda.Success:
		return 0, r
	case from == to:
		return 0, invalidDevice
	case a == cuda.P2PPerformanceRank:
		return c.sim.config.P2P(from, to), cuda.Success
	case c.sim.config.CanAccess(from, to):
		return 1, cuda.Success
	}
	return 0, cuda.Success
}

func (c *call) devicePrimaryCtxRetain(id cuda.DeviceID) (cuda.Context, cuda.Result) {
	d, ok := c.process.device(id)
	if !ok {
		return 0, invalidDevice
	}
	x := c.process.contexts[d]
	if x == nil {
		x = &context{process: c.process, device: d, handle: cuda.Context(c.sim.handle())}
		x.legacy = c.sim.newStream(x, 0)
		c.process.contexts[d] = x
	}
	x.retains++
	return x.handle, cuda.Success
}

// devicePrimaryCtxRelease destroys the context when it was retained no more. Objects that are left in it then are leaks.
func (c *call) devicePrimaryCtxRelease(id cuda.DeviceID) cuda.Result {
	d, ok := c.process.device(id)
	if !ok {
		return invalidDevice
	}
	x := c.process.contexts[d]
	if x == nil {
		return cuda.InvalidContext
	}
	if x.retains--; x.retains > 0 {
		return cuda.Success
	}
	c.sim.leaks = append(c.sim.leaks, c.process.left(x)...)
	x.fail(cuda.InvalidContext)
	c.process.forget(x)
	delete(c.process.contexts, d)
	maps.DeleteFunc(c.process.peers, func(pair [2]int, _ bool) bool { return pair[0] == d || pair[1] == d })
	return cuda.Success
}

func (p *Process) context(h cuda.Context) *context {
	for _, x := range p.contexts {
		if x.handle == h {
			return x
		}
	}
	return nil
}

func (c *call) ctxGetCurrent() (cuda.Context, cuda.Result) {
	if x := c.thread.context; x != nil {
		return x.handle, cuda.Success
	}
	return 0, cuda.Success
}

func (c *call) ctxSetCurrent(h cuda.Context) cuda.Result {
	if h == 0 {
		c.thread.context = nil
		return cuda.Success
	}
	x := c.process.context(h)
	if x == nil {
		return cuda.InvalidContext
	}
	c.thread.context = x
	return cuda.Success
}

func (c *call) ctxEnablePeerAccess(h cuda.Context) cuda.Result {
	x := c.process.context(h)
	switch {
	case x == nil:
		return cuda.InvalidContext
	case x == c.context:
		return invalidDevice
	case !c.sim.config.CanAccess(c.context.device, x.device):
		return peerAccessUnsupported
	}
	pair := [2]int{c.context.device, x.device}
	if c.process.peers[pair] {
		return cuda.PeerAccessAlreadyEnabled
	}
	c.process.peers[pair] = true
	return cuda.Success
}
