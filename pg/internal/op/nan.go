package op

import (
	"encoding/binary"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// NaN is the error of an operation that is to send a NaN. It says where the first one is.
type NaN struct {
	Tensor, Index int
	DType         colligo.DType
}

// Error says it on one line.
func (e *NaN) Error() string {
	return fmt.Sprintf("NaN in %v tensor %d at element %d", e.DType, e.Tensor, e.Index)
}

// Sent returns the tensors whose elements this rank sends; ranks that only receive send none.
func (o *Op) Sent() []colligo.Tensor {
	switch {
	case (o.Coll == plan.Broadcast || o.Coll == plan.Scatter) && o.Rank != o.Root:
		return nil
	case o.In.Valid():
		return []colligo.Tensor{o.In}
	}
	return o.Rare().Ins
}

// FindNaN searches the tensors that the operation sends from memory of this process. It returns nil if there is no NaN.
func (o *Op) FindNaN() *NaN {
	for n, t := range o.Sent() {
		if i := FirstNaN(Gathered(t), o.DType); i >= 0 {
			return &NaN{n, i, o.DType}
		}
	}
	return nil
}

// FirstNaN returns the index of the first element that is NaN, -1 if there is none. In a complex element either part counts.
func FirstNaN(b []byte, d colligo.DType) int {
	size := d.Real().Size()
	i := -1
	switch d.Real() {
	case colligo.Float64:
		i = firstAbove(b, 8, 0x7ff0_0000_0000_0000)
	case colligo.Float32:
		i = firstAbove(b, 4, 0x7f80_0000)
	case colligo.Float16:
		i = firstAbove(b, 2, 0x7c00)
	case colligo.BFloat16:
		i = firstAbove(b, 2, 0x7f80)
	case colligo.Float8E5M2:
		i = firstAbove(b, 1, 0x7c)
	case colligo.Float8E4M3FN:
		i = firstAbove(b, 1, 0x7e)
	}
	if i < 0 {
		return -1
	}
	return i * size / d.Size()
}

// firstAbove returns the index of the first number whose bits without the sign are above those of infinity. Where the type
// has no infinity, the largest number takes its place.
func firstAbove(b []byte, size int, most uint64) int {
	sign := uint64(1) << (8*size - 1)
	for i := 0; i+size <= len(b); i += size {
		var v uint64
		switch size {
		case 8:
			v = binary.NativeEndian.Uint64(b[i:])
		case 4:
			v = uint64(binary.NativeEndian.Uint32(b[i:]))
		case 2:
			v = uint64(binary.NativeEndian.Uint16(b[i:]))
		default:
			v = uint64(b[i])
		}
		if v&^sign > most {
			return i / size
		}
	}
	return -1
}
