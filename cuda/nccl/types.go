package nccl

import (
	"fmt"

	"github.com/colligo-go/colligo"
)

// The element types of the library, and the versions from which on it has some of them, and the average.
const (
	Int8 DType = iota
	Uint8
	Int32
	Uint32
	Int64
	Uint64
	Float16
	Float32
	Float64
	BFloat16
	Float8E4M3
	Float8E5M2

	bfloat16Since = 21000
	avgSince      = 21000
	float8Since   = 22400
)

// The reductions of the library.
const (
	Sum Op = iota
	Prod
	Max
	Min
	Avg
)

// dtypes and ops have the library's numbers plus one, 0 for what it does not have. Each call looks here, so they are no maps.
var (
	dtypes = [256]DType{colligo.Int8: Int8 + 1, colligo.Uint8: Uint8 + 1, colligo.Bool: Uint8 + 1, colligo.Int32: Int32 + 1,
		colligo.Uint32: Uint32 + 1, colligo.Int64: Int64 + 1, colligo.Uint64: Uint64 + 1, colligo.Float16: Float16 + 1,
		colligo.Float32: Float32 + 1, colligo.Float64: Float64 + 1, colligo.BFloat16: BFloat16 + 1,
		colligo.Float8E4M3FN: Float8E4M3 + 1, colligo.Float8E5M2: Float8E5M2 + 1}
	ops = [256]Op{colligo.KindSum: Sum + 1, colligo.KindProd: Prod + 1, colligo.KindMax: Max + 1, colligo.KindMin: Min + 1,
		colligo.KindAvg: Avg + 1}
)

func dtypeOf(d colligo.DType) (dt DType, ok bool) { return dtypes[d] - 1, dtypes[d] > 0 }

// Moved returns the element type as which the library moves elements, and how many of it an element is. Types that it does not
// have, such as complex numbers, are moved as bytes.
func (l *Library) Moved(d colligo.DType) (as DType, per int) {
	if dt, ok := dtypeOf(d); ok && l.version >= dt.since() {
		return dt, 1
	}
	return Uint8, d.Size()
}

// since returns the version from which on the library has an element type.
func (dt DType) since() int {
	switch dt {
	case BFloat16:
		return bfloat16Since
	case Float8E4M3, Float8E5M2:
		return float8Since
	}
	return 0
}

// opNames are c10d's names of reductions, by which users look for errors.
var opNames = map[colligo.OpKind]string{colligo.KindSum: "SUM", colligo.KindAvg: "AVG", colligo.KindProd: "PRODUCT", colligo.KindMin: "MIN",
	colligo.KindMax: "MAX", colligo.KindBAnd: "BAND", colligo.KindBOr: "BOR", colligo.KindBXor: "BXOR", colligo.KindPremulSum: "PREMUL_SUM"}

// Reduced returns the element type and the reduction as which the library reduces, and how many elements of it one element
// is. Complex numbers are added as pairs. A sum of truth values is their maximum, as c10d has it. Errors have c10d's words in them.
func (l *Library) Reduced(d colligo.DType, k colligo.OpKind) (as DType, per int, op Op, err error) {
	if int(d) < len(l.reduced[0]) && int(k) < len(l.reduced) && l.reduced[k][d].per > 0 {
		r := &l.reduced[k][d]
		return r.as, r.per, r.op, nil
	}
	return l.reduce(d, k)
}

// reduced is a reduction that the library has.
type reduced struct {
	as  DType
	op  Op
	per int // 0 of one that it does not have
}

// knowReduced finds what the library reduces, once for all calls.
func (l *Library) knowReduced() {
	for k := range l.reduced {
		for _, d := range colligo.DTypes() {
			if as, per, op, err := l.reduce(d, colligo.OpKind(k)); err == nil && int(d) < len(l.reduced[k]) {
				l.reduced[k][d] = reduced{as, op, per}
			}
		}
	}
}

func (l *Library) reduce(d colligo.DType, k colligo.OpKind) (as DType, per int, op Op, err error) {
	if op = ops[k] - 1; op < 0 {
		return 0, 0, 0, fmt.Errorf("nccl: Cannot use ReduceOp.%s with NCCL: no reduction for %v: the library has sum, prod, max, min, avg and premul_sum",
			opNames[k], k)
	}
	if op == Avg && l.version < avgSince {
		return 0, 0, 0, fmt.Errorf("nccl: AVG requires NCCL 2.10+. The current version is %s", l.Version())
	}
	as, ok := dtypeOf(d)
	per = 1
	switch d {
	case colligo.Complex64, colligo.Complex128:
		if k != colligo.KindSum && k != colligo.KindAvg {
			return 0, 0, 0, fmt.Errorf("nccl: NCCL does not support %s on complex tensors: only sums of complex numbers are those of their parts", opNames[k])
		}
		as, _ = dtypeOf(d.Real())
		per = 2
	case colligo.Bool:
		switch k {
		case colligo.KindSum, colligo.KindMax:
			op = Max
		case colligo.KindProd, colligo.KindMin:
			op = Min
		default:
			return 0, 0, 0, fmt.Errorf("nccl: Cannot use ReduceOp.%s with boolean inputs", opNames[k])
		}
	default:
		if !ok {
			return 0, 0, 0, fmt.Errorf("nccl: Input tensor data type is not supported for NCCL process group: %v", d)
		}
	}
	if l.version < as.since() {
		what := "Input tensor data type is not supported for NCCL process group"
		if as >= Float8E4M3 {
			what = "Unsupported Float8 type for NCCL reduction"
		}
		return 0, 0, 0, fmt.Errorf("nccl: %s: reductions of %v need NCCL %s or newer (NCCL version %s)", what, d, FormatVersion(as.since()), l.Version())
	}
	return as, per, op, nil
}
