package main

import (
	"fmt"
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
		e.miss("install libnccl.so.2 (package libnccl2 of NVIDIA, or pip install nvidia-nccl-cu12), or name its file with -nccl",
			"NCCL, which carries collectives of GPUs that do not reach each other, and which bench -compare nccl needs")
		return
	}
	e.say("nccl", "%s, %s", version, where)
}

// plans says what each collective uses, by size, and why.
func (e *examiner) plans() {
	e.say("cpu", "tensors on the CPU go over shm where all ranks are on one host, else over tcp; the first row that holds, by the bytes of the whole tensor:")
	e.say("", "collective\twhere\talgorithm")
	for c := plan.AllReduce; c <= plan.Barrier; c++ {
		var rules []string
		for _, l := range tuning.Default() {
			if l.Coll == c {
				rules = append(rules, l.String())
			}
		}
		if names := tuning.Algorithms(c); len(names) > 0 {
			rules = append(rules, fmt.Sprintf("%v %s", c, names[len(names)-1]))
		}
		e.choices(c, rules)
	}
	if len(e.devices) == 0 {
		return
	}
	e.say("gpu", "%s; the first row that holds and that these GPUs can run, by the bytes of a rank's longest part:", e.why())
	e.say("", "collective\twhere\talgorithm")
	for c := plan.AllReduce; c <= plan.Scatter; c++ {
		var rules []string
		for _, l := range peer.DefaultRules() {
			if l.Coll == c && (l.MaxSize == 0 || len(e.devices) <= l.MaxSize) {
				rules = append(rules, l.String())
			}
		}
		e.choices(c, rules)
	}
}

// choices prints one row for each rule of a collective, which is named on the first.
func (e *examiner) choices(c plan.Coll, rules []string) {
	name := c.String()
	for _, rule := range rules {
		where, algorithm := split(rule)
		e.say("", "%s\t%s\t%s", name, where, algorithm)
		name = ""
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

// split turns the text of a rule, "all_reduce ≤64 KiB: ll 16x256", into its condition and its algorithm.
func split(rule string) (where, algorithm string) {
	condition, algorithm, found := strings.Cut(rule, ": ")
	if !found {
		_, algorithm, _ = strings.Cut(rule, " ")
	} else if _, where, found = strings.Cut(condition, " "); found {
		return where, algorithm
	}
	return "any", algorithm
}
