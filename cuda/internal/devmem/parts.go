package devmem

import (
	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// Parts are the parts of one tensor, or a tensor for each rank.
type Parts struct {
	One  colligo.Tensor
	List []colligo.Tensor
	Elem int // bytes of an element
}

// Whole returns where the tensor begins that a rank has alone.
func (r *Parts) Whole() cuda.Pointer { return Address(r.One) }

// At returns where rank q's part begins; in one tensor that is at element off.
func (r *Parts) At(q, off int) cuda.Pointer {
	if r.List != nil {
		return Address(r.List[q])
	}
	return Address(r.One) + cuda.Pointer(off*r.Elem)
}
