package cudasim

import (
	"fmt"
	"maps"
	"slices"
)

// left lists the parts of a context that have not been given back.
func (p *Process) left(x *context) []string {
	var all []string
	add := func(of *context, format string, args ...any) {
		if of == x {
			all = append(all, fmt.Sprintf("process %d, device %d: ", p.id, x.device)+fmt.Sprintf(format, args...))
		}
	}
	for _, g := range p.space {
		add(g.context, "%v at %#x", g.memory, g.lo)
	}
	for _, st := range sortedStreams(p) {
		if !st.gone {
			add(st.context, "stream %#x", uintptr(st.handle))
		}
	}
	for _, h := range slices.Sorted(maps.Keys(p.events)) {
		add(p.events[h].context, "event %#x", uintptr(h))
	}
	for _, h := range slices.Sorted(maps.Keys(p.modules)) {
		add(p.modules[h].context, "module %#x", uintptr(h))
	}
	for _, h := range slices.Sorted(maps.Keys(p.graphs)) {
		add(p.graphs[h].context, "graph %#x", uintptr(h))
	}
	for _, h := range slices.Sorted(maps.Keys(p.execs)) {
		add(p.execs[h].context, "executable graph %#x", uintptr(h))
	}
	return all
}

// Leaks lists everything that processes which were not killed have not given back: contexts retained, memory, mappings, addresses,
// streams, events, modules, graphs.
func (s *Sim) Leaks() []string {
	s.lock()
	defer s.unlock()
	all := slices.Clone(s.leaks)
	for _, p := range s.processes {
		for _, d := range slices.Sorted(maps.Keys(p.contexts)) {
			x := p.contexts[d]
			all = append(all, p.left(x)...)
			all = append(all, fmt.Sprintf("process %d, device %d: primary context, retained %d times", p.id, d, x.retains))
		}
		for _, g := range p.space {
			if g.context == nil {
				all = append(all, fmt.Sprintf("process %d: mapping of %v at %#x", p.id, g.memory, g.lo))
			}
		}
		for _, a := range slices.Sorted(maps.Keys(p.allocations)) {
			all = append(all, fmt.Sprintf("process %d: allocation %#x of %v", p.id, uint64(a), p.allocations[a]))
		}
		for _, at := range slices.Sorted(maps.Keys(p.reserved)) {
			all = append(all, fmt.Sprintf("process %d: %d reserved addresses at %#x", p.id, p.reserved[at], at))
		}
	}
	return all
}
