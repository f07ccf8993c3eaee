package bootstrap

import "math/bits"

// census counts the ranks of each host and the cores on which they may run.
type census map[string]*population

type population struct {
	ranks int
	cpus  []byte // of all its ranks together
}

// add counts a rank.
func (c census) add(of *info) {
	p := c[of.Node]
	if p == nil {
		p = &population{}
		c[of.Node] = p
	}
	p.ranks++
	for i, b := range of.CPUs {
		if i == len(p.cpus) {
			p.cpus = append(p.cpus, 0)
		}
		p.cpus[i] |= b
	}
}

// crowded reports whether the ranks of some host outnumber its cores. Where ranks are not told of, there are enough.
func (c census) crowded() bool {
	for _, p := range c {
		if cores := p.cores(); cores > 0 && p.ranks > cores {
			return true
		}
	}
	return false
}

// spare reports whether every host has two cores for each of its ranks. Where ranks do not tell of cores, there are none.
func (c census) spare() bool {
	for _, p := range c {
		if 2*p.ranks > p.cores() {
			return false
		}
	}
	return true
}

// cores counts them.
func (p *population) cores() (n int) {
	for _, b := range p.cpus {
		n += bits.OnesCount8(b)
	}
	return n
}
