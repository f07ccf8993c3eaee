package main

import (
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// premul is the premul_sum that is measured. The factor is a power of two, so products are exact.
var premul = colligo.PremulSum(premulFactor)

const premulFactor = 2

// testCase is one block of the table: a collective on one element type with one reduction, over all sizes.
type testCase struct {
	collective
	dtype colligo.DType
	op    colligo.ReduceOp
}

// opName is the name of the reduction, or none.
func (c testCase) opName() string {
	if !c.reduces {
		return "none"
	}
	return c.op.String()
}

// typeName is the name of the element type, or none.
func (c testCase) typeName() string {
	if c.coll == barrier {
		return "none"
	}
	return c.dtype.String()
}

// cases returns what to measure. A reduction that an element type does not define is left out if "all" brought the two
// together. If both were named, it is an error.
func (o *options) cases() ([]testCase, error) {
	dtypes, err := parseList(o.dtypes, colligo.DTypes(), colligo.ParseDType)
	if err != nil {
		return nil, fmt.Errorf("-d: %w", err)
	}
	ops, err := parseList(o.ops, allOps(), parseOp)
	if err != nil {
		return nil, fmt.Errorf("-o: %w", err)
	}
	var all []testCase
	for _, c := range o.collectives {
		switch {
		case c.coll == plan.Send && o.ranks < 2:
			continue // a rank alone has nobody to send to
		case c.coll == barrier:
			all = append(all, testCase{collective: c, dtype: colligo.Uint8})
		case c.reduces:
			some, err := reductions(c, dtypes, ops, o.dtypes == "all" || o.ops == "all")
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		default:
			for _, d := range dtypes {
				all = append(all, testCase{collective: c, dtype: d})
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("sendrecv needs two ranks")
	}
	return all, nil
}

func reductions(c collective, dtypes []colligo.DType, ops []colligo.ReduceOp, lenient bool) ([]testCase, error) {
	var all []testCase
	for _, d := range dtypes {
		for _, op := range ops {
			_, _, err := op.Kind().Check(d)
			if err == nil {
				all = append(all, testCase{c, d, op})
			} else if !lenient {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: none of the reductions is defined on these element types", c.name)
	}
	return all, nil
}

func parseOp(name string) (colligo.ReduceOp, error) {
	op, err := colligo.ParseReduceOp(name)
	if op.Kind() == colligo.KindPremulSum {
		return premul, err
	}
	return op, err
}
