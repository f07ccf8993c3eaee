package ddp

import (
	"unsafe"

	"github.com/colligo-go/colligo"
)

// view returns the memory of a contiguous tensor on the CPU.
func view[T float32 | float64 | uint16](t colligo.Tensor) []T {
	return unsafe.Slice((*T)(t.Pointer()), t.Len())
}
