package shm

import (
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// neighbours are the ranks that were seen on this rank's core. Where ranks share cores, they decide what to do while a frame is
// awaited. If one of them owes this rank a frame, too, it needs the core. If none does, the frame comes from another core,
// and to give this one away would only cost two switches. Where there are cores for all, a rank that has any goes to another core.
type neighbours struct {
	links   []*link
	due     int       // idle rounds until they are looked for again
	frames  int       // frames until the peers are told again where this rank is
	cpu     uint32    // where the system writes this rank's CPU
	unknown bool      // the system does not tell it
	parted  time.Time // when this rank went to another core
}

// How often a rank looks on which core it is, and who else is there: after so many idle rounds, and after so many frames. The system
// moves ranks from one core to another now and then.
const (
	placeEvery  = 64
	placeFrames = 128
)

// partEvery is the least time between two moves of a rank to another core. One takes some 0.1 ms, so those that do not help cost a
// hundredth of the time.
const partEvery = 10 * time.Millisecond

// place tells the peers on which core this rank is, and finds the ranks on the same one.
func (m *mesh) place() {
	n := &m.neighbours
	n.due, n.frames, n.links = placeEvery, placeFrames, n.links[:0]
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
// reports whether the frame has come. Between long frames it does not look: the ranks on this core have payloads to copy meanwhile.
func (m *mesh) awaitOther() bool {
	n := &m.neighbours
	if m.missed.slotted {
		return false
	}
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

// part takes this rank to another core if it has neighbours. It is called where there are cores for all, and reports whether it did so.
// The system puts two ranks on one core when one wakes the other. It may leave them there for tens of milliseconds, while a core is idle.
// Then each looks on in vain while the other could run.
func (m *mesh) part() bool {
	m.place()
	n := &m.neighbours
	if n.unknown || len(n.links) == 0 || time.Since(n.parted) < partEvery {
		return false
	}
	n.parted = time.Now()
	return m.leave(int(n.cpu))
}

// leave takes this thread off a CPU by way of the set of CPUs on which it may run, which is the same afterwards. It reports whether
// there was another CPU.
func (m *mesh) leave(cpu int) bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil {
		return false
	}
	others := all
	others.Clear(cpu)
	if others.Count() == 0 || unix.SchedSetaffinity(0, &others) != nil {
		return false
	}
	if err := unix.SchedSetaffinity(0, &all); err != nil {
		m.log.Warn("a thread that was taken off a CPU may not run there again", "cpu", cpu, "group", m.c.Name, "rank", m.c.Rank, "err", err)
	}
	m.place()
	return true
}
