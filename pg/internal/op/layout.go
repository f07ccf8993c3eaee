package op

import (
	"slices"

	"github.com/colligo-go/colligo"
)

// dense reports whether the elements fill their memory without gaps and overlap, in whatever order of the dimensions.
func dense(t *colligo.Tensor) bool {
	shape, strides := t.Shape(), t.Strides()
	dims := make([]int, 0, len(shape))
	for i, n := range shape {
		if n != 1 {
			dims = append(dims, i)
		}
	}
	slices.SortFunc(dims, func(a, b int) int { return strides[a] - strides[b] })
	want := 1
	for _, d := range dims {
		if strides[d] != want {
			return false
		}
		want *= shape[d]
	}
	return true
}

// layout checks a tensor on a device. All tensors of a call are contiguous, or all are dense with the strides of the first. The call
// then takes their memory as it lies, and the ranks must agree on the strides.
func (o *Op) layout(t *colligo.Tensor, first bool) {
	if t.Contiguous() && o.Rare().Strides == nil {
		return
	}
	switch strides := t.Strides(); {
	case !dense(t):
		o.Failf("%v with strides %v is neither contiguous nor dense, as tensors on a device must be", *t, strides)
	case first:
		o.More().Strides = strides
	case !slices.Equal(o.Rare().Strides, strides):
		o.Failf("%v with strides %v beside a tensor that lies otherwise: on a device all tensors of a call have the same strides", *t, strides)
	}
}

// flat returns a tensor as one that is contiguous in its memory, if the call takes memory as it lies.
func (o *Op) flat(t *colligo.Tensor) *colligo.Tensor {
	if o.Rare().Strides == nil {
		return t
	}
	return flattened(t)
}

func flattened(t *colligo.Tensor) *colligo.Tensor {
	all := colligo.OnDevice(t.Device(), t.Addr(), t.Len(), t.DType(), t.Shape()...)
	return &all
}

// flatList returns the tensors of a list as contiguous ones, if the call takes memory as it lies. The caller's list stays as it is.
func (o *Op) flatList(ts []colligo.Tensor) []colligo.Tensor {
	if o.Rare().Strides == nil {
		return ts
	}
	all := make([]colligo.Tensor, len(ts))
	for i := range ts {
		all[i] = *o.flat(&ts[i])
	}
	return all
}

// mixes reports whether some tensors of a call are complex and others are not.
func mixes(one *colligo.Tensor, ts []colligo.Tensor) bool {
	of := one.DType().Complex()
	for i := range ts {
		if ts[i].DType().Complex() != of {
			return true
		}
	}
	return false
}

// asReal returns a complex tensor viewed as pairs of reals. Others stay as they are.
func asReal(t colligo.Tensor) colligo.Tensor {
	if t.Valid() && t.DType().Complex() && t.Contiguous() {
		return t.View(t.DType().Real())
	}
	return t
}

// Alike returns the tensors of a list as they are, or if some are complex and others are not, all viewed as reals.
func Alike(ts []colligo.Tensor, by colligo.ReduceOp) []colligo.Tensor {
	if len(ts) == 0 || !mixes(&ts[0], ts) {
		return ts
	}
	if _, _, err := by.Kind().Check(colligo.Complex64); err != nil {
		return ts // of which each complex one is refused
	}
	return asReals(ts)
}

// asReals views the complex tensors of a list as pairs of reals. The caller's list stays as it is.
func asReals(ts []colligo.Tensor) []colligo.Tensor {
	all := make([]colligo.Tensor, len(ts))
	for i := range ts {
		all[i] = asReal(ts[i])
	}
	return all
}
