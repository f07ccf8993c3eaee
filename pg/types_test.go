package pg_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
)

var everyOp = []colligo.ReduceOp{colligo.Sum, colligo.Avg, colligo.Prod, colligo.Min, colligo.Max, colligo.BAnd, colligo.BOr,
	colligo.BXor, colligo.PremulSum(0.5)}

// algorithms returns the i-th algorithm of every collective, beginning anew where one has fewer.
func algorithms(i int) func(int, *pg.Config) {
	algo := map[string]string{}
	for coll := range collectives {
		names := tuning.Algorithms(coll)
		algo[coll.String()] = names[i%len(names)]
	}
	return func(_ int, c *pg.Config) { c.Algo = algo }
}

var passes = len(tuning.Algorithms(plan.AllReduce))

// readReal and writeReal are the naive codec of real elements other than 64-bit integers.
func readReal(b []byte, d colligo.DType) float64 {
	switch ne := binary.NativeEndian; d {
	case colligo.Float16:
		return float64(colligo.Float16ToFloat32(ne.Uint16(b)))
	case colligo.BFloat16:
		return float64(colligo.BFloat16ToFloat32(ne.Uint16(b)))
	case colligo.Float8E4M3FN:
		return float64(colligo.Float8E4M3FNToFloat32(b[0]))
	case colligo.Float8E5M2:
		return float64(colligo.Float8E5M2ToFloat32(b[0]))
	case colligo.Float32:
		return float64(math.Float32frombits(ne.Uint32(b)))
	default:
		return math.Float64frombits(ne.Uint64(b))
	}
}

func writeReal(b []byte, d colligo.DType, x float64) {
	switch ne := binary.NativeEndian; d {
	case colligo.Float16:
		ne.PutUint16(b, colligo.Float16FromFloat32(float32(x)))
	case colligo.BFloat16:
		ne.PutUint16(b, colligo.BFloat16FromFloat32(float32(x)))
	case colligo.Float8E4M3FN:
		b[0] = colligo.Float8E4M3FNFromFloat32(float32(x))
	case colligo.Float8E5M2:
		b[0] = colligo.Float8E5M2FromFloat32(float32(x))
	case colligo.Float32:
		ne.PutUint32(b, math.Float32bits(float32(x)))
	default:
		ne.PutUint64(b, math.Float64bits(x))
	}
}

// readInt reads an integer, sign extended where it has a sign.
func readInt(b []byte, d colligo.DType) int64 {
	switch ne := binary.NativeEndian; d {
	case colligo.Uint8:
		return int64(b[0])
	case colligo.Int8:
		return int64(int8(b[0]))
	case colligo.Int16:
		return int64(int16(ne.Uint16(b)))
	case colligo.Int32:
		return int64(int32(ne.Uint32(b)))
	case colligo.Uint32:
		return int64(ne.Uint32(b))
	default:
		return int64(ne.Uint64(b))
	}
}

func writeInt(b []byte, x int64) {
	switch ne := binary.NativeEndian; len(b) {
	case 1:
		b[0] = byte(x)
	case 2:
		ne.PutUint16(b, uint16(x))
	case 4:
		ne.PutUint32(b, uint32(x))
	default:
		ne.PutUint64(b, uint64(x))
	}
}

// reduceInts is the definition of a reduction of integers: sums and products wrap, averages truncate.
func reduceInts(d colligo.DType, k colligo.OpKind, xs []int64) int64 {
	acc, less := xs[0], func(a, b int64) bool { return a < b }
	if d == colligo.Uint64 {
		less = func(a, b int64) bool { return uint64(a) < uint64(b) }
	}
	for _, x := range xs[1:] {
		switch k {
		case colligo.KindSum, colligo.KindAvg:
			acc += x
		case colligo.KindProd:
			acc *= x
		case colligo.KindBAnd:
			acc &= x
		case colligo.KindBOr:
			acc |= x
		case colligo.KindBXor:
			acc ^= x
		case colligo.KindMin, colligo.KindMax:
			if less(x, acc) == (k == colligo.KindMin) {
				acc = x
			}
		}
	}
	if k != colligo.KindAvg {
		return acc
	}
	b := make([]byte, d.Size())
	writeInt(b, acc)
	if d == colligo.Uint64 {
		return int64(uint64(acc) / uint64(len(xs)))
	}
	return readInt(b, d) / int64(len(xs))
}

// reduceReals is the definition for numbers so small that no order of summing matters.
func reduceReals(k colligo.OpKind, xs []float64) float64 {
	acc := xs[0]
	for _, x := range xs[1:] {
		switch k {
		case colligo.KindSum, colligo.KindAvg, colligo.KindPremulSum:
			acc += x
		case colligo.KindProd:
			acc *= x
		case colligo.KindMin:
			acc = min(acc, x)
		case colligo.KindMax:
			acc = max(acc, x)
		}
	}
	switch k {
	case colligo.KindAvg:
		return acc / float64(len(xs))
	case colligo.KindPremulSum:
		return acc / 2
	}
	return acc
}

func reduceBools(k colligo.OpKind, xs []int64) int64 {
	n := int64(0)
	for _, x := range xs {
		n += x
	}
	truth := false
	switch k {
	case colligo.KindSum, colligo.KindMax, colligo.KindBOr:
		truth = n > 0
	case colligo.KindProd, colligo.KindMin, colligo.KindBAnd:
		truth = n == int64(len(xs))
	case colligo.KindBXor:
		truth = n%2 == 1
	}
	if truth {
		return 1
	}
	return 0
}

// sample makes n elements of a rank whose reduction by k is exact in any order: any integers, and floats in {0, 1, 2}.
func sample(d colligo.DType, k colligo.OpKind, rank, n int) []byte {
	rng := rand.New(rand.NewPCG(uint64(rank), uint64(d)<<8|uint64(k)))
	b := make([]byte, n*d.Size())
	size := d.Real().Size()
	for i := 0; i < len(b); i += size {
		switch {
		case d == colligo.Bool:
			b[i] = byte(rng.IntN(2))
		case d.Integer():
			writeInt(b[i:i+size], int64(rng.Uint64()))
		case k == colligo.KindProd:
			writeReal(b[i:], d.Real(), float64(1+rng.IntN(2)))
		default:
			writeReal(b[i:], d.Real(), float64(rng.IntN(3)))
		}
	}
	return b
}

// reduction is the result by definition.
func reduction(d colligo.DType, k colligo.OpKind, size, n int) []byte {
	ins := make([][]byte, size)
	for r := range ins {
		ins[r] = sample(d, k, r, n)
	}
	out := make([]byte, n*d.Size())
	e := d.Real().Size()
	ints, reals := make([]int64, size), make([]float64, size)
	for i := 0; i < len(out); i += e {
		for r, in := range ins {
			switch {
			case d == colligo.Bool:
				ints[r] = int64(in[i])
			case d.Integer():
				ints[r] = readInt(in[i:i+e], d)
			default:
				reals[r] = readReal(in[i:i+e], d.Real())
			}
		}
		switch {
		case d == colligo.Bool:
			out[i] = byte(reduceBools(k, ints))
		case d.Integer():
			writeInt(out[i:i+e], reduceInts(d, k, ints))
		default:
			writeReal(out[i:i+e], d.Real(), reduceReals(k, reals))
		}
	}
	return out
}

// reduceAll runs the three reductions on one type and operation and compares every bit.
func reduceAll(t *testing.T, g *pg.Group, d colligo.DType, op colligo.ReduceOp, n int) {
	say := fmt.Sprintf("%v %v %d", d, op, n)
	all, part := n*g.Size(), n*d.Size()
	want := reduction(d, op.Kind(), g.Size(), all)
	in := sample(d, op.Kind(), g.Rank(), all)

	x := append([]byte(nil), in...)
	require.NoError(t, g.AllReduce(t.Context(), colligo.Bytes(x, d), op), say)
	require.Equal(t, want, x, say)

	root := n % g.Size()
	x = append([]byte(nil), in...)
	require.NoError(t, g.Reduce(t.Context(), colligo.Bytes(x, d), root, op), say)
	if g.Rank() == root {
		require.Equal(t, want, x, say)
	} else {
		require.Equal(t, in, x, "%s: the input is only read", say)
	}

	x = append([]byte(nil), in...)
	out := make([]byte, part)
	require.NoError(t, g.ReduceScatterTensor(t.Context(), colligo.Bytes(out, d), colligo.Bytes(x, d), op), say)
	require.Equal(t, want[g.Rank()*part:][:part], out, say)
	require.Equal(t, in, x, "%s: the input is only read", say)
}

// TestTypesAndOps reduces every element type by every operation with every planner.
func TestTypesAndOps(t *testing.T) {
	for i := range passes {
		for _, size := range []int{2, 3, 4} {
			t.Run(fmt.Sprintf("algo=%d/size=%d", i, size), func(t *testing.T) {
				pgtest.RunWith(t, size, pgtest.Options{Config: algorithms(i)}, func(t *testing.T, g *pg.Group) {
					for _, d := range colligo.DTypes() {
						for _, op := range everyOp {
							if _, _, err := op.Kind().Check(d); err != nil {
								require.ErrorIs(t, g.AllReduce(t.Context(), colligo.Bytes(nil, d), op), colligo.ErrOp)
								continue
							}
							if op.Kind() == colligo.KindAvg && size == 3 && !d.Integer() {
								continue // thirds are not exact
							}
							reduceAll(t, g, d, op, 37)
						}
					}
				})
			})
		}
	}
}

// TestPremulBy gives every rank a factor of its own in a tensor, for each floating point type.
func TestPremulBy(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		for _, d := range colligo.DTypes() {
			if !d.Float() && !d.Complex() {
				continue
			}
			factor := make([]byte, d.Real().Size())
			writeReal(factor, d.Real(), float64(g.Rank()+1))
			op := colligo.PremulSumBy(colligo.Bytes(factor, d.Real()))
			ones := make([]byte, 5*d.Size())
			for i := 0; i < len(ones); i += len(factor) {
				writeReal(ones[i:], d.Real(), 1)
			}
			for _, root := range []int{0, 2} {
				x := append([]byte(nil), ones...)
				require.NoError(t, g.Reduce(t.Context(), colligo.Bytes(x, d), root, op))
				for i := 0; i < len(x); i += len(factor) {
					want := 1.0
					if g.Rank() == root {
						want = 6
					}
					require.Equal(t, want, readReal(x[i:], d.Real()), "%v on rank %d, root %d", d, g.Rank(), root)
				}
			}
		}
	})
}
