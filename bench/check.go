package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// inOneProcess reports whether this process runs all ranks.
func (o *options) inOneProcess() bool { return o.threads || o.transport == inProcess }

// onNCCL reports whether NCCL carries the operations on GPUs.
func (o *options) onNCCL() bool { return o.backend == nccl.Name || o.transport == nccl.Name }

// plans names the plans whose steps NCCL carries; empty if it runs algorithms of its own.
func (o *options) plans() string {
	if o.transport != nccl.Name {
		return ""
	}
	return cmp.Or(o.algo, nccl.PlansRing)
}

// levels returns the table by which NCCL's backend takes two levels: -algo for all, else none.
func (o *options) levels() []nccl.Rule {
	if o.algo != nccl.TwoLevel {
		return nil
	}
	return []nccl.Rule{{Coll: plan.AllReduce, Algorithm: nccl.TwoLevel}}
}

// checkTransport refuses what does not go with plans over NCCL.
func (o *options) checkTransport() error {
	switch {
	case o.transport != nccl.Name:
		return nil
	case o.device != onCUDA:
		return fmt.Errorf("-transport nccl: NCCL knows tensors on GPUs only; this is -device %s", o.device)
	case o.backend == backend.Native:
		return fmt.Errorf("-transport nccl: not with -backend %s, whose GPUs see each other's memory", o.backend)
	case o.algo != "" && o.algo != nccl.PlansRing && o.algo != nccl.PlansTree:
		return fmt.Errorf("-algo %s: over NCCL there are %s and %s", o.algo, nccl.PlansRing, nccl.PlansTree)
	case o.tune || o.register:
		return fmt.Errorf("-transport nccl: neither -tune nor -register goes with it")
	}
	return nil
}

// checkAll checks the flags for each number of ranks.
func (o *options) checkAll(p process) error {
	for _, n := range o.rankCounts {
		o.ranks = n
		if err := o.check(p); err != nil {
			return err
		}
	}
	return nil
}

// check refuses what makes no sense before anything is started. In a process that joins, it also takes the number of
// ranks from the launcher.
func (o *options) check(p process) error {
	if o.joins {
		if err := o.join(p); err != nil {
			return err
		}
	}
	if err := o.resolve(p); err != nil {
		return err
	}
	if o.device == onCUDA && !o.ranksSet && !o.joins {
		o.ranks = o.machine.devices
	}
	switch {
	case o.markdown && o.compare == "":
		return fmt.Errorf("-markdown prints a comparison: -compare names none")
	case (o.markdown || len(o.rankCounts) > 1) && (o.joins || o.inOneProcess()):
		return fmt.Errorf("-markdown, and -ranks %v: only where bench starts a process for each rank", &o.rankCounts)
	case len(o.rankCounts) > 1 && o.plot != "" && !o.markdown && !o.json:
		return fmt.Errorf("-plot with -ranks %v: only with -markdown or -json, which bring all runs together", &o.rankCounts)
	case !slices.Contains([]string{"auto", "shm", "tcp", inProcess, nccl.Name}, o.transport):
		return fmt.Errorf("-transport %s: there are auto, shm, tcp, inproc and nccl", o.transport)
	case o.ranks < 1:
		return fmt.Errorf("-ranks %d: at least one rank is needed", o.ranks)
	case o.root < 0 || o.root >= o.ranks:
		return fmt.Errorf("-r %d: the ranks are 0 to %d", o.root, o.ranks-1)
	case o.begin > o.end:
		return fmt.Errorf("-b %v is more than -e %v", &o.begin, &o.end)
	case o.factor < 2:
		return fmt.Errorf("-f %d: the factor is at least 2", o.factor)
	case o.iterations == 0:
		return fmt.Errorf("-n 0: at least one iteration is needed")
	case o.tuned != "" && (!o.tune || o.device == onCUDA):
		return fmt.Errorf("-out %s: only -tune on the CPU writes a table", o.tuned)
	case o.rounds < 1 || o.rounds > 1 && !o.tune:
		return fmt.Errorf("-rounds %d: 1, or more with -tune", o.rounds)
	case o.turns < 1:
		return fmt.Errorf("-turns %d: at least one batch is needed", o.turns)
	case o.timeout <= 0:
		return fmt.Errorf("-timeout %v: must be more than 0", o.timeout)
	}
	if _, err := o.cases(); err != nil {
		return err
	}
	if err := errors.Join(o.checkDevice(), o.checkTransport()); err != nil {
		return err
	}
	_, err := o.variants()
	return err
}

// join holds the flags against the launcher's environment.
func (o *options) join(p process) error {
	n, err := strconv.Atoi(p.getenv("WORLD_SIZE"))
	switch {
	case err != nil:
		return fmt.Errorf("RANK is set, but WORLD_SIZE is %q", p.getenv("WORLD_SIZE"))
	case o.inOneProcess():
		return fmt.Errorf("-threads and -transport inproc run all ranks in one process, but RANK is set: a launcher has started several")
	case o.ranksSet && n != o.ranks:
		return fmt.Errorf("-ranks %d, but the launcher has set WORLD_SIZE=%d", o.ranks, n)
	}
	o.ranks = n
	return nil
}
