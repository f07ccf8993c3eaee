package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
)

// nccl says where NCCL is.
func (e *examiner) nccl() {
	where, version, err := e.library()
	if err != nil {
		e.say("nccl", "%v", err)
		e.miss("NCCL, which bench -compare nccl needs; -nccl names its library")
		return
	}
	e.say("nccl", "%s, %s", version, where)
}

// plans says what each collective uses, by size, and why.
func (e *examiner) plans() {
	e.say("cpu", "tensors on the CPU go over shm where all ranks are on one host, else over tcp; by the bytes of the whole tensor, the last for all others:")
	for c := plan.AllReduce; c <= plan.Barrier; c++ {
		var steps []string
		for _, l := range tuning.Default() {
			if l.Coll == c {
				steps = append(steps, afterColon(l.String()))
			}
		}
		if names := tuning.Algorithms(c); len(names) > 0 {
			e.say("", "%-14s %s", c, strings.Join(append(steps, names[len(names)-1]), "; "))
		}
	}
	if len(e.devices) == 0 {
		return
	}
	e.say("gpu", "%s; by the bytes of a rank's longest part:", e.why())
	for c := plan.AllReduce; c <= plan.Scatter; c++ {
		var steps []string
		for _, l := range peer.DefaultRules() {
			if l.Coll == c && (l.MaxSize == 0 || len(e.devices) <= l.MaxSize) {
				steps = append(steps, afterColon(l.String()))
			}
		}
		if len(steps) > 0 {
			e.say("", "%-14s %s", c, strings.Join(steps, "; "))
		}
	}
}

// why says whether the table for GPUs holds here.
func (e *examiner) why() string {
	switch {
	case len(e.devices) == 1:
		return "one device: ranks that share it use the native backend"
	case len(e.apart) > 0:
		return fmt.Sprintf("not all devices reach one another (%s): the native backend takes only groups of those that do",
			strings.Join(e.apart, ", "))
	}
	return fmt.Sprintf("all %d devices reach one another's memory, so the native backend is used", len(e.devices))
}

// afterColon turns "all_reduce ≤64 KiB: ll 16x256" into "≤64 KiB ll 16x256", for a line that begins with the
// collective.
func afterColon(line string) string {
	_, line, _ = strings.Cut(line, " ")
	before, after, found := strings.Cut(line, ": ")
	if !found { // there was no condition
		return line
	}
	return strings.Join(slices.DeleteFunc([]string{before, after}, func(s string) bool { return s == "" }), " ")
}
