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

// forms has how an algorithm carries out each collective that it serves.
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
