package peer

import (
	"strconv"

	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// Algorithm names how an operation is carried out.
type Algorithm string

// An algorithm is a value that stands in a file of its own. The table of tuning.go lists all of them. Choosing, explaining
// and launching read nothing else.
type algorithm struct {
	source     string // the name's constant in Go source
	name       Algorithm
	registered bool // it is for tensors in registered memory
	forms      forms
	prepare    func(x *launcher, g ptx.GroupArgs) // fills in arguments that are the same in every launch; nil if there are none
}

// form is how an algorithm carries out one collective. A collective that it does not serve has the zero form.
type form struct {
	needs  need
	fits   func(x *launcher, o *operation) bool // whether it takes an operation of this size and shape; nil: all
	launch func(x *launcher, o *operation) error
}

// need says which properties of the group a form relies on.
type need uint8

const (
	nvlink need = 1 << iota // all devices linked by NVLink: a store of 16 bytes arrives whole
	pair                    // two ranks at most
)

// forms are those of an algorithm, by collective.
type forms [plan.Scatter + 1]form

// Serves reports whether a collective has this algorithm.
func (a Algorithm) Serves(c plan.Coll) bool {
	of := algorithmNamed(a)
	return of != nil && of.serves(c)
}

func (a *algorithm) serves(c plan.Coll) bool {
	return int(c) < len(a.forms) && a.forms[c].launch != nil
}

// Registered reports whether an algorithm is for tensors in registered memory alone.
func (a Algorithm) Registered() bool {
	of := algorithmNamed(a)
	return of != nil && of.registered
}

// GoString returns the name's constant in Go source, such as "LL128". An algorithm that does not exist is quoted.
func (a Algorithm) GoString() string {
	if of := algorithmNamed(a); of != nil {
		return of.source
	}
	return strconv.Quote(string(a))
}

// algorithmNamed returns the algorithm of a name, nil if there is none.
func algorithmNamed(name Algorithm) *algorithm {
	for _, a := range algorithms {
		if a.name == name {
			return a
		}
	}
	return nil
}

// tuned is a rule with the algorithms that may take its operations, in the order in which they are asked: the rule's own, and
// its fallbacks.
type tuned struct {
	Rule
	by []*algorithm
}

// tune keeps the rules that the group can follow, and adds the last one of each collective.
func (x *launcher) tune(rules []Rule) {
	for _, r := range rules {
		of := algorithmNamed(r.Algorithm)
		if !r.coversSize(x.size) || !x.able(of.forms[r.Coll].needs) {
			continue
		}
		t := tuned{r, []*algorithm{of}}
		for _, name := range fallbacks[r.Algorithm] {
			if a := algorithmNamed(name); a.serves(r.Coll) && x.able(a.forms[r.Coll].needs) {
				t.by = append(t.by, a)
			}
		}
		x.rules[r.Coll] = append(x.rules[r.Coll], t)
	}
	for c := range x.rules {
		if last := lastRule(plan.Coll(c)); last != nil {
			x.rules[c] = append(x.rules[c], *last)
		}
	}
}

// able reports whether the group has the properties that a form relies on.
func (x *launcher) able(n need) bool {
	return (x.linked || n&nvlink == 0) && (x.size <= 2 || n&pair == 0)
}

// choose finds the first rule that covers an operation and has an algorithm that takes it. It notes the rule in the operation.
func (x *launcher) choose(o *operation) *algorithm {
	registered := o.window != nil && o.window.Aligned(o.out, 16)
	rules := x.rules[o.Coll]
	for i := range rules {
		r := &rules[i]
		if !r.covers(o.bytes, registered) || r.Eager && o.captured() {
			continue
		}
		o.rule = &r.Rule
		for _, a := range r.by {
			if f := &a.forms[o.Coll]; f.fits == nil || f.fits(x, o) {
				return a
			}
		}
	}
	return rules[len(rules)-1].by[0] // which takes every operation
}

// run carries out an operation whose size and shape are known.
func (x *launcher) run(o *operation) error {
	return x.choose(o).forms[o.Coll].launch(x, o)
}
