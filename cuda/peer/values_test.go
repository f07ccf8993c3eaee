package peer

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels"
)

// inputs returns the n elements that a rank gives to a reduction among size ranks. They are those of values, so that results
// are exact, but for averages. An average of floats multiplies each input by a weight first. A half, a fourth and an eighth
// leave all inputs exact. With other weights inputs are 0 or 1: every third of a rank is the same, so no order shows. Averages
// of 0 to 3 as integers would be 1 nearly everywhere. So integers are larger: no two sums have one average, and most are
// truncated. Rank and position show in all: four ranks that follow one another have four different inputs, also of zeros and
// ones. The bytes are not the caller's to change.
func inputs(d colligo.DType, k colligo.OpKind, size, rank, n int) []byte {
	switch {
	case k != colligo.KindAvg:
		return values(d, k, rank, n)
	case d.Integer():
		return multiples(d, k, rank, n, size+1)
	case size&(size-1) == 0:
		return values(d, colligo.KindSum, rank, n)
	}
	return values(d, k, rank, n)
}

// values returns n elements that tell rank and position: small numbers for sums, and powers of two for products. So results are
// exact in every type, whatever the order. The bytes are not the caller's to change.
func values(d colligo.DType, k colligo.OpKind, rank, n int) []byte {
	return multiples(d, k, rank, n, 1)
}

// multiples returns values times a number, which is 1 but for integers.
func multiples(d colligo.DType, k colligo.OpKind, rank, n, times int) []byte {
	type key struct {
		d              colligo.DType
		k              colligo.OpKind
		rank, n, times int
	}
	return madeOnce(key{d, k, rank, n, times}, n, func() []byte { return makeValues(d, k, rank, n, times) })
}

// madeOnce returns n elements that belong to a key, from before or made now: every rank asks for those of all.
func madeOnce(key any, n int, produce func() []byte) []byte {
	if n > mostMade {
		return produce()
	}
	if b, ok := made.Load(key); ok {
		return b.([]byte)
	}
	b, _ := made.LoadOrStore(key, produce())
	return b.([]byte)
}

// made are elements that were asked for before, by key.
var made sync.Map

const mostMade = 1 << 18 // elements

// zeros returns n bytes, which are not the caller's to change.
func zeros(n int) []byte {
	if n > len(zero) {
		return make([]byte, n)
	}
	return zero[:n:n]
}

var zero [1 << 20]byte

func makeValues(d colligo.DType, k colligo.OpKind, rank, n, times int) []byte {
	var patterns [4][8]byte // of each value
	for v := range patterns {
		of := v * times
		switch { // of two numbers the high bit tells them: the low one would be the same of every second rank
		case k == colligo.KindProd:
			of = 1 + v>>1
		case k == colligo.KindAvg && !d.Integer() || d == colligo.Bool || d.Real().Size() == 1 && d.Float():
			of >>= 1
		}
		putValue(patterns[v][:], d.Real(), of)
	}
	b, size := make([]byte, n*d.Size()), d.Real().Size()
	deal(b, size, rank, &patterns)
	return b
}

// deal fills b with elements of some bytes: the i-th is the pattern of the number (i*3 + i/7 + i>>11 + rank*5) % 4. But for i>>11 the
// numbers come again after 28 elements. So runs of elements are copied.
func deal(b []byte, size, rank int, patterns *[4][8]byte) {
	const run, period = 1 << 11, 28
	room := (min(run, len(b)/size) + period) * size
	var numbered [4][]byte // runs and a period more, by the number of their first element
	for first := range numbered {
		of := make([]byte, 0, room+period*size)
		for i := range period {
			of = append(of, patterns[(i*3+i/7+first)%4][:size]...)
		}
		for len(of) < room {
			of = append(of, of[:min(len(of), cap(of)-len(of))]...)
		}
		numbered[first] = of
	}
	for i := 0; i*size < len(b); i += run {
		copyData(b[i*size:], numbered[(i>>11+rank*5)%4][i%period*size:][:min(run*size, len(b)-i*size)])
	}
}

// TestDeal compares deal with one element after the other.
func TestDeal(t *testing.T) {
	t.Parallel()
	patterns := [4][8]byte{{1, 2, 3, 4, 5, 6, 7, 8}, {9, 10, 11, 12, 13, 14, 15, 16}, {17, 18, 19, 20, 21, 22, 23, 24}, {25, 26, 27, 28, 29, 30, 31, 32}}
	for _, size := range []int{1, 2, 4, 8} {
		for _, n := range []int{0, 1, 27, 29, 2047, 2048, 2049, 10_001} {
			for rank := range 5 {
				got := make([]byte, n*size)
				deal(got, size, rank, &patterns)
				for i := range n {
					if want := patterns[(i*3+i/7+i>>11+rank*5)%4][:size]; !bytes.Equal(want, got[i*size:][:size]) {
						t.Fatalf("%d bytes, rank %d: element %d of %d is %x, not %x", size, rank, i, n, got[i*size:][:size], want)
					}
				}
			}
		}
	}
}

// Bits of 0 to 3.
var (
	bitsF16  = [4]uint16{0, 0x3c00, 0x4000, 0x4200}
	bitsBF16 = [4]uint16{0, 0x3f80, 0x4000, 0x4040}
	bitsE4M3 = [4]byte{0, 0x38, 0x40, 0x44}
	bitsE5M2 = [4]byte{0, 0x3c, 0x40, 0x42}
)

func putValue(b []byte, d colligo.DType, v int) {
	le := binary.LittleEndian
	switch d {
	case colligo.Float16:
		le.PutUint16(b, bitsF16[v])
	case colligo.BFloat16:
		le.PutUint16(b, bitsBF16[v])
	case colligo.Float8E4M3FN:
		b[0] = bitsE4M3[v]
	case colligo.Float8E5M2:
		b[0] = bitsE5M2[v]
	case colligo.Float32:
		le.PutUint32(b, math.Float32bits(float32(v)))
	case colligo.Float64:
		le.PutUint64(b, math.Float64bits(float64(v)))
	default:
		b[0] = byte(v)
		clear(b[1:d.Size()])
	}
}

// reduced returns the reduction of all ranks' values, by the CPU's kernels. The bytes are not the caller's to change.
func reduced(d colligo.DType, op colligo.ReduceOp, size, n int) ([]byte, error) {
	k, err := kernels.Lookup(d, op.Kind())
	if err != nil {
		return nil, err
	}
	type key struct {
		d       colligo.DType
		op      colligo.ReduceOp
		size, n int
	}
	return madeOnce(key{d, op, size, n}, n, func() []byte {
		return makeReduced(k, op, size, func(q int) []byte { return inputs(d, op.Kind(), size, q, n) })
	}), nil
}

// makeReduced reduces what the ranks of a group have.
func makeReduced(k *kernels.Kernel, op colligo.ReduceOp, size int, of func(rank int) []byte) []byte {
	var acc []byte
	factor := k.Weight(size)
	if op.Kind() == colligo.KindPremulSum {
		factor, _ = op.Factor()
	}
	for q := range size {
		x := of(q)
		if factor != 1 {
			x = bytes.Clone(x)
			k.Scale(x, x, factor)
		}
		if q == 0 {
			acc = bytes.Clone(x)
		} else {
			k.Reduce(acc, acc, x)
		}
	}
	k.Finish(acc, acc, size)
	return acc
}

// TestInputsTellRanks holds what inputs says of ranks: four that follow one another differ in every type and reduction. A sum or
// an average that takes one of them twice, for another one, comes out wrong.
func TestInputsTellRanks(t *testing.T) {
	const n = 64
	for _, c := range allTypes(n) {
		for size := 2; size <= symheap.MaxRanks; size++ {
			for a := range size {
				for b := a + 1; b < min(a+4, size); b++ {
					require.NotEqual(t, inputs(c.dtype, c.op.Kind(), size, a, n), inputs(c.dtype, c.op.Kind(), size, b, n), "%v, ranks %d and %d of %d", c, a, b, size)
					if c.op.Kind() != colligo.KindSum && c.op.Kind() != colligo.KindAvg || c.dtype == colligo.Bool {
						continue
					}
					k, err := kernels.Lookup(c.dtype, c.op.Kind())
					require.NoError(t, err)
					want := makeReduced(k, c.op, size, func(q int) []byte { return inputs(c.dtype, c.op.Kind(), size, q, n) })
					twice := makeReduced(k, c.op, size, func(q int) []byte {
						if q == b {
							q = a
						}
						return inputs(c.dtype, c.op.Kind(), size, q, n)
					})
					require.NotEqual(t, want, twice, "%v, rank %d of %d twice and rank %d never", c, a, size, b)
				}
			}
		}
	}
}
