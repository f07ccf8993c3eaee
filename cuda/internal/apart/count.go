package apart

import (
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/plan"
)

// count is the calls of a queue by the way that they went. It tells how far both backends are with them, in their order.
type count struct {
	done  uint64 // calls before the first of runs
	given [2]uint64
	runs  []run
}

// run is calls that follow one another on one way, or barriers, which go both.
type run struct {
	calls uint64
	both  bool
	by    way
	upTo  [2]uint64 // calls that each backend was given until the end of the run
}

// add notes n calls on a way.
func (x *count) add(w way, n uint64) {
	x.given[w] += n
	if i := len(x.runs) - 1; i >= 0 && x.runs[i].by == w && !x.runs[i].both {
		x.runs[i].calls, x.runs[i].upTo = x.runs[i].calls+n, x.given
		return
	}
	x.runs = append(x.runs, run{calls: n, by: w, upTo: x.given})
}

// addToBoth notes a barrier that counts as n calls.
func (x *count) addToBoth(n uint64) {
	x.given[byNCCL]++
	x.given[byHost]++
	x.runs = append(x.runs, run{calls: n, both: true, upTo: x.given})
}

// finished returns how many calls are done, of which each backend has done so many.
func (x *count) finished(done [2]uint64) uint64 {
	for len(x.runs) > 0 && done[byNCCL] >= x.runs[0].upTo[byNCCL] && done[byHost] >= x.runs[0].upTo[byHost] {
		x.done += x.runs[0].calls
		x.runs = x.runs[1:]
	}
	if len(x.runs) == 0 || x.runs[0].both {
		return x.done
	}
	r := &x.runs[0]
	missing := r.upTo[r.by] - min(done[r.by], r.upTo[r.by])
	return x.done + r.calls - min(missing, r.calls)
}

// Finished implements backend.Tracker.
func (b *either) Finished(c plan.Coll) uint64 {
	done := [2]uint64{byNCCL: b.Backend.Finished(c), byHost: b.rest.Finished(c)}
	b.counting.Lock()
	defer b.counting.Unlock()
	return b.count[streamorder.QueueOf(c)].finished(done)
}
