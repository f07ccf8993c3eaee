package gloo

import (
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// Check implements host.Wire: it refuses what ranks of PyTorch do not know.
func (w *Wire) Check(o *op.Op) error {
	if o.Coll == plan.Barrier {
		return nil
	}
	if !types(w.version, o.DType) {
		return w.refuse("%v elements", o.DType)
	}
	if o.P2P() {
		return nil
	}
	if o.Coll.Reduces() {
		if err := w.checkReduction(o); err != nil {
			return err
		}
	}
	return w.checkForm(o)
}

func (w *Wire) checkReduction(o *op.Op) error {
	switch o.Reduce {
	case colligo.KindPremulSum:
		return w.refuse("%v", o.Reduce)
	case colligo.KindAvg:
		if !averages(w.version) {
			return w.refuse("an average")
		}
		if !o.DType.Float() {
			return w.refuse("an average of %v elements", o.DType)
		}
	}
	return nil
}

// checkForm refuses collectives that the version lacks, and uneven ones of those that it has for equal parts alone.
func (w *Wire) checkForm(o *op.Op) error {
	v := w.version
	switch o.Type() {
	case op.AllReduceSparse:
		return nil
	case op.AllGather, op.AllGatherBase, op.Gather, op.Scatter:
		if o.Rare().Counts != nil {
			return w.refuse("%v of parts of several lengths", o.Coll)
		}
		if o.Coll == plan.AllGather && o.Count == 0 && !gathersNothing(v) {
			return w.refuse("an all_gather without elements")
		}
	case op.ReduceScatterBase:
		if !reduceScatters(v) {
			return w.refuse("a reduce_scatter")
		}
		if o.Reduce != colligo.KindSum && !reducesScattered(v) { // its ranks would have sums without a word
			return w.refuse("a reduce_scatter by %v: it sums, whatever is asked for", o.Reduce)
		}
	case op.ReduceScatter:
		if !reduceScattersLists(v) {
			return w.refuse("a reduce_scatter of a list")
		}
	case op.AllToAll:
		if !exchangesLists(v) {
			return w.refuse("an all_to_all of lists")
		}
	}
	return nil
}

func (w *Wire) refuse(format string, args ...any) error {
	return fmt.Errorf("the Gloo of PyTorch %v does not have %s", w.version, fmt.Sprintf(format, args...))
}
