package streamorder

// Shares is the calls of a queue by which of two backends carries them. It tells how far both are with them, in the order of the calls.
type Shares struct {
	done  uint64 // calls before the first of runs
	given [2]uint64
	runs  []share
}

// share is calls that follow one another on one backend, or barriers, which go to both.
type share struct {
	calls uint64
	both  bool
	by    int
	upTo  [2]uint64 // calls that each backend was given until the end of the share
}

// Add notes n calls of backend by, 0 or 1.
func (x *Shares) Add(by int, n uint64) {
	x.given[by] += n
	if i := len(x.runs) - 1; i >= 0 && x.runs[i].by == by && !x.runs[i].both {
		x.runs[i].calls, x.runs[i].upTo = x.runs[i].calls+n, x.given
		return
	}
	x.runs = append(x.runs, share{calls: n, by: by, upTo: x.given})
}

// AddToBoth notes a barrier of both backends that counts as n calls.
func (x *Shares) AddToBoth(n uint64) {
	x.given[0]++
	x.given[1]++
	x.runs = append(x.runs, share{calls: n, both: true, upTo: x.given})
}

// Finished returns how many calls are done, of which each backend has done so many.
func (x *Shares) Finished(done [2]uint64) uint64 {
	for len(x.runs) > 0 && done[0] >= x.runs[0].upTo[0] && done[1] >= x.runs[0].upTo[1] {
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
