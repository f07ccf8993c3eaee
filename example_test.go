package colligo_test

import (
	"errors"
	"fmt"

	"github.com/colligo-go/colligo"
)

// A tensor is a view of a slice: no element is copied, and writing to one changes the other.
func ExampleOf() {
	x := []float32{1, 2, 3, 4, 5, 6}
	t := colligo.Of(x, 2, 3)
	x[0] = 7
	fmt.Println(t, t.Len(), "elements,", t.Size(), "bytes")
	fmt.Println(colligo.Elements[float32](t))
	// Output:
	// float32[2 3] cpu 6 elements, 24 bytes
	// [7 2 3 4 5 6]
}

// Which reduction goes with which element type is one table, which all backends ask. The sum of bools is their maximum, as in c10d.
func ExampleOpKind_Check() {
	kind, as, err := colligo.KindSum.Check(colligo.Bool)
	fmt.Println(kind, as, err)
	_, _, err = colligo.KindBAnd.Check(colligo.Float32)
	fmt.Println(err)
	fmt.Println(errors.Is(err, colligo.ErrOp))
	// Output:
	// max uint8 <nil>
	// colligo: band of float32 elements, which must be integers or bool: reduce operation not defined on this element type
	// true
}
