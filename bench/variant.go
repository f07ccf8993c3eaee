package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
)

// variant is one choice of algorithms: the tables', or what -algo or -tune puts in their place. Each has its own group.
type variant struct {
	label string            // in -tune's messages
	algo  map[string]string // as pg.Config takes it; nil leaves the table alone
	rules []peer.Rule       // of GPUs
	// tuned are the collectives that the variant is a candidate for, with the largest size in the table's bytes, 0 for
	// any. Nil measures everything.
	tuned map[plan.Coll]int
}

// measures reports whether a size is to be measured with the variant.
func (v *variant) measures(c testCase, bytes int) bool {
	if v.tuned == nil {
		return true
	}
	most, ok := v.tuned[c.coll]
	return ok && (most == 0 || bytes <= most)
}

// variants returns what to measure with: -algo, or all candidates of -tune.
func (o *options) variants() ([]*variant, error) {
	switch {
	case len(o.try) > 0 && !(o.tune && o.device == onCUDA):
		return nil, fmt.Errorf("-try %v goes with -tune on GPUs", &o.try)
	case o.tune && o.algo != "":
		return nil, fmt.Errorf("-tune tries all algorithms, -algo %s names one", o.algo)
	case o.tune && o.compare != "":
		return nil, fmt.Errorf("-tune and -compare do not go together")
	case o.tune && o.ranks < 2:
		return nil, fmt.Errorf("-tune: one rank has nothing to choose from")
	case o.tune && o.device == onCUDA:
		return o.candidatesOnGPU()
	case o.tune:
		return o.candidatesOnCPU()
	case o.algo == "" || o.transport == nccl.Name || o.backend == nccl.Name && o.algo == nccl.TwoLevel:
		return []*variant{{rules: peer.DefaultRules()}}, nil
	case o.device == onCUDA:
		all, err := o.oneAlgorithm(peer.DefaultRules())
		return []*variant{{rules: all}}, err
	}
	algo, err := o.algorithms()
	return []*variant{{algo: algo}}, err
}

// algorithms returns -algo for the collectives that have it, as pg.Config takes it.
func (o *options) algorithms() (map[string]string, error) {
	algo := map[string]string{}
	var known []string
	for _, c := range o.collectives {
		names := tuning.Algorithms(c.coll)
		if slices.Contains(names, o.algo) {
			algo[c.coll.String()] = o.algo
		}
		if len(names) > 0 {
			known = append(known, c.name+": "+strings.Join(names, " "))
		}
	}
	if len(algo) == 0 {
		return nil, fmt.Errorf("-algo %s: there are %s", o.algo, strings.Join(known, "; "))
	}
	return algo, nil
}

// algorithmsOf returns the algorithms of a collective on GPUs: the algorithms that the table has for it, and the ones by
// copy engines.
func algorithmsOf(table []peer.Rule, c plan.Coll) []string {
	var all []string
	for _, l := range table {
		if l.Coll == c && !slices.Contains(all, string(l.Algorithm)) {
			all = append(all, string(l.Algorithm))
		}
	}
	for _, w := range []peer.Algorithm{peer.CopyRing, peer.CopyDirect} {
		if w.Serves(c) && !slices.Contains(all, string(w)) {
			all = append(all, string(w))
		}
	}
	return all
}

// oneAlgorithm returns the table with -algo for the collectives that have it. The grids stay those of the sizes. An algorithm that only
// registered tensors have comes before all others.
func (o *options) oneAlgorithm(table []peer.Rule) ([]peer.Rule, error) {
	var known []string
	named := map[plan.Coll]bool{}
	for _, c := range o.collectives {
		algorithms := algorithmsOf(table, c.coll)
		named[c.coll] = slices.Contains(algorithms, o.algo)
		if peer.Algorithm(o.algo) == peer.CopyDirect && named[c.coll] { // few lines have it
			table = append(table, peer.Rule{Coll: c.coll, Registered: true, Algorithm: peer.CopyDirect, Blocks: 256, Threads: 256})
		}
		if len(algorithms) > 0 {
			known = append(known, c.name+": "+strings.Join(algorithms, " "))
		}
	}
	var first, all []peer.Rule
	found := false
	for _, l := range table {
		switch {
		case !named[l.Coll]:
		case !forAnyTensor(table, l.Coll, o.algo):
			if found = true; string(l.Algorithm) == o.algo {
				l.MaxBytes = 0
				first = append(first, l)
				continue
			}
		default:
			l.Algorithm, l.Tile, found = peer.Algorithm(o.algo), cmp.Or(l.Tile, tunedTile), true
			if l.Algorithm == peer.CopyRing || l.Algorithm == peer.Fused {
				l.Tile = 0 // slices as large as slots
			}
		}
		all = append(all, l)
	}
	if !found {
		return nil, fmt.Errorf("-algo %s: there are %s", o.algo, strings.Join(known, "; "))
	}
	return append(first, all...), nil
}

// forAnyTensor reports whether an algorithm is open to tensors that are not registered.
func forAnyTensor(table []peer.Rule, c plan.Coll, algorithm string) bool {
	return algorithm == string(peer.CopyRing) || slices.ContainsFunc(table, func(l peer.Rule) bool { return l.Coll == c && string(l.Algorithm) == algorithm && !l.Registered })
}

// algorithmOf returns the algorithm of an operation on GPUs, as the table's own rule picks it.
func algorithmOf(table []peer.Rule, c plan.Coll, ranks, bytes int, registered, captured bool) string {
	for _, l := range table {
		if l.Coll == c && l.Covers(ranks, bytes, registered, captured) {
			return string(l.Algorithm)
		}
	}
	return "pair"
}
