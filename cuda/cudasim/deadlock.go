package cudasim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// deadlock fails every call that waits, and drops everything that is enqueued: nothing has moved for so long.
func (s *Sim) deadlock(silence time.Duration) {
	s.fault(s.report(silence))
	for _, w := range s.waiters {
		w.failed = true
	}
	for _, p := range s.processes {
		for _, d := range slices.Sorted(maps.Keys(p.contexts)) {
			if x := p.contexts[d]; x.busy() {
				x.fail(launchTimeout)
			}
		}
	}
	s.moved()
}

func (x *context) busy() bool {
	for _, st := range append(sortedStreams(x.process), x.legacy) {
		if st.context == x && len(st.ops) > 0 {
			return true
		}
	}
	return false
}

// report names a deadlock, and says what everything waits for.
func (s *Sim) report(silence time.Duration) string {
	return fmt.Sprintf("deadlock: nothing has moved for %v\n%s", silence.Round(10*time.Millisecond), s.standing())
}

// standing says what everything waits for.
func (s *Sim) standing() string {
	var b strings.Builder
	if len(s.waiters) == 0 {
		fmt.Fprintf(&b, "  no call waits: the host polls or does something else\n")
	}
	for _, w := range s.waiters {
		fmt.Fprintf(&b, "  process %d: %s\n%s", w.process.id, w.what, stack(w.pcs, "    "))
	}
	for _, p := range s.processes {
		for _, st := range append(p.legacyStreams(), sortedStreams(p)...) {
			if len(st.ops) > 0 {
				fmt.Fprintf(&b, "  process %d, device %d, stream %#x: %d operations, the first is %s\n%s", p.id, st.context.device,
					uintptr(st.handle), len(st.ops), st.ops[0].describe(), stack(st.ops[0].pcs, "    "))
			}
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (p *Process) legacyStreams() []*stream {
	var all []*stream
	for _, d := range slices.Sorted(maps.Keys(p.contexts)) {
		all = append(all, p.contexts[d].legacy)
	}
	return all
}

// describe says what an operation waits for.
func (o *op) describe() string {
	switch {
	case o.pending > 0:
		for _, before := range o.after {
			if !before.done {
				return fmt.Sprintf("%s, which waits for %v", o.name, before.origin)
			}
		}
	case o.waits != nil:
		return o.name + ", which " + o.waits()
	case o.inside != nil:
		return o.name + ", of which " + o.inside()
	case len(o.tasks) > 0:
		return o.name + o.describeTasks()
	}
	return o.name
}

const mostBlocks = 4 // described

func (o *op) describeTasks() string {
	var b strings.Builder
	left := 0
	for _, st := range o.sortedTasks() {
		if st.children > 0 {
			continue
		}
		if left++; left > mostBlocks {
			continue
		}
		fmt.Fprintf(&b, "; block %d %s", st.block, st.describe())
	}
	if left > mostBlocks {
		fmt.Fprintf(&b, "; and %d more blocks", left-mostBlocks)
	}
	return b.String()
}

func (st *blockTask) describe() string {
	switch {
	case st.threads > 0 && !st.resident:
		return "has no room on the device"
	case len(st.looked) == 0:
		return "has not begun or yields"
	}
	var looks []string
	for _, l := range st.looked {
		if l.hi-l.lo == 4 {
			looks = append(looks, fmt.Sprintf("word %d of %v, which is %d", l.lo/4, l.memory, l.memory.get(l.lo)))
		} else {
			looks = append(looks, fmt.Sprintf("data at bytes %d to %d of %v", l.lo, l.hi, l.memory))
		}
	}
	return "polls " + strings.Join(looks, " and ")
}
