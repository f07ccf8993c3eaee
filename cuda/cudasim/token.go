package cudasim

import (
	"encoding/binary"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
)

// A token names a memory of a Sim in what travels between processes: a magic number, the Sim, the memory, the process
// that exports it.
const (
	tokenBytes = 32
	tokenMagic = 0x6d69732d61647563 // "cuda-sim"
)

func (s *Sim) token(m *memory) []byte {
	b := binary.LittleEndian.AppendUint64(nil, tokenMagic)
	b = binary.LittleEndian.AppendUint64(b, uint64(uintptr(unsafe.Pointer(s))))
	b = binary.LittleEndian.AppendUint64(b, m.id)
	return binary.LittleEndian.AppendUint64(b, uint64(m.process))
}

func (c *call) ipcGetMemHandle(p cuda.Pointer) (cuda.IPCHandle, cuda.Result) {
	g := c.process.find(uint64(p))
	if g == nil || g.kind != allocated {
		return cuda.IPCHandle{}, cuda.InvalidValue
	}
	var h cuda.IPCHandle
	copy(h[:], c.sim.token(g.memory))
	c.sim.exports[string(h[:tokenBytes])] = g.memory
	return h, cuda.Success
}

// ipcOpenMemHandle maps a handle once for each context, and counts how often.
func (c *call) ipcOpenMemHandle(h *cuda.IPCHandle, flags cuda.IPCFlags) (cuda.Pointer, cuda.Result) {
	m := c.sim.exports[string(h[:tokenBytes])]
	switch {
	case flags != cuda.IPCLazyPeerAccess:
		return 0, cuda.InvalidValue
	case m == nil:
		return 0, cuda.InvalidValue
	case m.process == c.process.id:
		return 0, cuda.InvalidContext
	case m.freed || m.refs == 0:
		return 0, mapFailed
	case !c.process.sees(m.device):
		return 0, invalidDevice
	}
	for _, g := range c.process.space {
		if g.kind == opened && g.memory == m && g.context == c.context {
			g.opens++
			return cuda.Pointer(g.lo), cuda.Success
		}
	}
	if m.device != c.context.device {
		if !c.sim.config.CanAccess(c.context.device, m.device) {
			return 0, peerAccessUnsupported
		}
		c.process.peers[[2]int{c.context.device, m.device}] = true
	}
	at := c.sim.place(m.device, len(m.data), 512)
	c.process.mapMemory(at, len(m.data), m, opened, c.context)
	return cuda.Pointer(at), cuda.Success
}

func (c *call) ipcCloseMemHandle(p cuda.Pointer) cuda.Result {
	g := c.process.start(uint64(p), opened)
	if g == nil {
		return cuda.InvalidValue
	}
	if g.opens--; g.opens == 0 {
		c.takeAway(g)
	}
	return cuda.Success
}
