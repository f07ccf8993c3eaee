package colligo

import (
	"errors"
	"fmt"
)

// OpKind says how two elements become one.
type OpKind uint8

// The kinds of reduction, numbered as c10d numbers them.
const (
	KindSum OpKind = iota
	KindAvg
	KindProd
	KindMin
	KindMax
	KindBAnd
	KindBOr
	KindBXor
	KindPremulSum
	numKinds
)

var kindNames = [numKinds]string{"sum", "avg", "prod", "min", "max", "band", "bor", "bxor", "premul_sum"}

// String returns the kind's name, such as "sum".
func (k OpKind) String() string {
	if k >= numKinds {
		return fmt.Sprintf("op(%d)", uint8(k))
	}
	return kindNames[k]
}

// ReduceOp is a reduction: its kind, and for PremulSum the factor. The zero value is Sum.
type ReduceOp struct {
	kind   OpKind
	factor float64
	by     *Tensor
}

// The reductions without a parameter. They are values; assigning to them is a mistake.
var (
	Sum  = ReduceOp{kind: KindSum}
	Avg  = ReduceOp{kind: KindAvg} // the mean of all ranks; integers truncate toward zero, floats are the PremulSum of 1/size
	Prod = ReduceOp{kind: KindProd}
	Min  = ReduceOp{kind: KindMin} // a NaN in any input is the result
	Max  = ReduceOp{kind: KindMax} // a NaN in any input is the result
	BAnd = ReduceOp{kind: KindBAnd}
	BOr  = ReduceOp{kind: KindBOr}
	BXor = ReduceOp{kind: KindBXor}
)

// PremulSum multiplies each rank's input by factor before it is summed. Factors may differ between ranks.
func PremulSum(factor float64) ReduceOp { return ReduceOp{kind: KindPremulSum, factor: factor} }

// PremulSumBy sums what the ranks give, each multiplied by the factor in a one-element tensor, which is read when the
// operation starts. The tensor has the input's element type, or for complex input the type of its real part.
func PremulSumBy(factor Tensor) ReduceOp { return ReduceOp{kind: KindPremulSum, by: &factor} }

// Kind returns how two elements become one.
func (op ReduceOp) Kind() OpKind { return op.kind }

// Factor returns the factor of a PremulSum, and the tensor that holds it if it was made by PremulSumBy (else nil).
func (op ReduceOp) Factor() (float64, *Tensor) { return op.factor, op.by }

// String returns the name of the kind.
func (op ReduceOp) String() string { return op.kind.String() }

// Op returns the reduction of a kind; premul_sum gets the factor 1.
func (k OpKind) Op() ReduceOp { return ReduceOp{kind: k, factor: 1}.clean() }

// ParseReduceOp reads the name of a kind; premul_sum gets the factor 1.
func ParseReduceOp(s string) (ReduceOp, error) {
	for k := KindSum; k < numKinds; k++ {
		if kindNames[k] == s {
			return k.Op(), nil
		}
	}
	return ReduceOp{}, fmt.Errorf("colligo: unknown reduce operation %q", s)
}

func (op ReduceOp) clean() ReduceOp {
	if op.kind != KindPremulSum {
		op.factor = 0
	}
	return op
}

// ErrOp is wrapped by the error of an operation that is not defined on an element type.
var ErrOp = errors.New("reduce operation not defined on this element type")

// Check says whether kind k is defined on elements of type d, and returns the kind and the element type to compute with.
// They differ from k and d where c10d substitutes. The sum of bools is their maximum; complex elements are summed, averaged
// and premultiplied as pairs of reals. Everything else that c10d refuses is an error here too.
func (k OpKind) Check(d DType) (OpKind, DType, error) {
	if k >= numKinds || !d.Valid() {
		return 0, 0, fmt.Errorf("colligo: %v of %v: %w", k, d, ErrOp)
	}
	switch {
	case d == Bool && k == KindSum:
		return KindMax, Uint8, nil
	case d == Bool && (k == KindAvg || k == KindPremulSum):
		return 0, 0, fmt.Errorf("colligo: %v of bool elements: %w", k, ErrOp)
	case d == Bool:
		return k, Uint8, nil
	case d.Complex() && k != KindSum && k != KindAvg && k != KindPremulSum:
		return 0, 0, fmt.Errorf("colligo: %v of %v elements: %w", k, d, ErrOp)
	case k == KindPremulSum && d.Integer():
		return 0, 0, fmt.Errorf("colligo: premul_sum of %v elements, which must be floating point: %w", d, ErrOp)
	case (k == KindBAnd || k == KindBOr || k == KindBXor) && !d.Integer():
		return 0, 0, fmt.Errorf("colligo: %v of %v elements, which must be integers or bool: %w", k, d, ErrOp)
	}
	return k, d.Real(), nil
}
