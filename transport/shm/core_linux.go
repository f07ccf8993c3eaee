package shm

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// neighbours are the ranks that were seen on this rank's core, for a rank that shares it. They decide what to do while a frame is
// awaited. If one of them owes this rank a frame, too, it needs the core. If none does, the frame comes from another core,
// and to give this one away would only cost two switches.
type neighbours struct {
	links   []*link
	due     int    // idle rounds until they are looked for again
	cpu     uint32 // where the system writes this rank's CPU
	unknown bool   // the system does not tell it
}

// placeEvery is how many idle rounds pass until a rank looks again on which core it is, and who else is there. The system moves ranks
// from one core to another now and then.
const placeEvery = 64

// place tells the peers on which core this rank is, and finds the ranks on the same one.
func (m *mesh) place() {
	n := &m.neighbours
	n.due, n.links = placeEvery, n.links[:0]
	_, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&n.cpu)), 0, 0)
	if n.unknown = errno != 0; n.unknown {
		return
	}
	core := n.cpu + 1
	if m.door.core.Load() != core {
		m.door.core.Store(core)
	}
	for _, l := range m.links {
		if l != nil && l.door.core.Load() == core {
			n.links = append(n.links, l)
		}
	}
}

// awaitOther looks for the awaited frame for a moment, if each rank on this core has sent what this rank takes from it next. It
// reports whether the frame has come.
func (m *mesh) awaitOther() bool {
	n := &m.neighbours
	if n.due--; n.due < 0 {
		m.place()
	}
	if n.unknown {
		return false
	}
	for _, l := range n.links {
		if !l.in[m.missed.lane].came() {
			return false
		}
	}
	return m.missed.await(otherLooks)
}
