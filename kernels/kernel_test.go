package kernels_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
)

func TestLookupObeysCheck(t *testing.T) {
	for d := colligo.DType(0); d <= colligo.Complex128+1; d++ {
		for op := colligo.KindSum; op <= colligo.KindPremulSum+1; op++ {
			k, got := kernels.Lookup(d, op)
			_, _, want := op.Check(d)
			require.Equal(t, want, got)
			require.Equal(t, want == nil, k != nil)
			if k != nil {
				require.Equal(t, op.String()+" "+d.String(), k.Name())
			}
		}
	}
}

// layouts are where operands lie: offset of dst, a and b from alignment, and whether dst is a or b.
var layouts = []struct {
	name      string
	dst, a, b int
	isA, isB  bool
}{
	{name: "apart"},
	{name: "dst is a", isA: true},
	{name: "dst is b", isB: true},
	{name: "all are one", isA: true, isB: true},
	{name: "aligned to four", dst: 4, a: 4, b: 4},
	{name: "dst unaligned", dst: 1},
	{name: "a unaligned", a: 3},
	{name: "b unaligned", b: 7},
	{name: "dst is a unaligned", dst: 5, a: 5, isA: true},
}

func TestReduceIsItsTwin(t *testing.T) {
	rnd := random(t)
	lengths := []int{4099}
	for n := range 68 {
		lengths = append(lengths, n)
	}
	everyKernel(func(d colligo.DType, op colligo.OpKind, k *kernels.Kernel) {
		for _, n := range lengths {
			l := layouts[(n+int(d))%len(layouts)]
			what := fmt.Sprintf("%s, %d elements, %s", k.Name(), n, l.name)
			x, y := operand(rnd, d, n), operand(rnd, d, n)
			if l.isA && l.isB {
				y = x
			}
			a, b, dst := guard(x, l.a), guard(y, l.b), guard(operand(rnd, d, n), l.dst)
			if l.isA {
				dst = a
			}
			if l.isB {
				b = dst
				copy(b.data, y)
			}
			k.Reduce(dst.data, a.data, b.data)
			require.True(t, same(d, dst.data, reduced(d, op, x, y), sloppy(op)), what)
			dst.check(t, what)
			require.True(t, l.isA || slices.Equal(a.data, x), "%s: a was written", what)
			require.True(t, l.isB || slices.Equal(b.data, y), "%s: b was written", what)
		}
	})
}

// sloppy says whether which NaN results is left open.
func sloppy(op colligo.OpKind) bool { return op != colligo.KindMin && op != colligo.KindMax }

func TestReduceOfEveryPairOfBytes(t *testing.T) {
	a, b := make([]byte, 1<<16), make([]byte, 1<<16)
	for i := range a {
		a[i], b[i] = byte(i), byte(i>>8)
	}
	dst := make([]byte, 1<<16)
	everyKernel(func(d colligo.DType, op colligo.OpKind, k *kernels.Kernel) {
		if d.Size() == 1 {
			k.Reduce(dst, a, b)
			require.True(t, same(d, dst, reduced(d, op, a, b), sloppy(op)), k.Name())
		}
	})
}

func TestOperandOrderDoesNotMatter(t *testing.T) {
	rnd := random(t)
	everyKernel(func(d colligo.DType, op colligo.OpKind, k *kernels.Kernel) {
		a, b := operand(rnd, d, 5000), operand(rnd, d, 5000)
		ab, ba := make([]byte, len(a)), make([]byte, len(a))
		k.Reduce(ab, a, b)
		k.Reduce(ba, b, a)
		require.True(t, same(d, ab, ba, sloppy(op)), k.Name())
	})
}

func TestFinishIsItsTwin(t *testing.T) {
	rnd := random(t)
	everyKernel(func(d colligo.DType, op colligo.OpKind, k *kernels.Kernel) {
		for n := range 68 {
			ranks := []int{1, 2, 3, 7, 256, 1000, 1 << 17}[n%7]
			what := fmt.Sprintf("%s, %d elements, %d ranks", k.Name(), n, ranks)
			x := operand(rnd, d, n*(1+n%2*40))
			for offset := range 2 {
				src, dst := guard(x, offset), guard(operand(rnd, d, len(x)/d.Size()), 0)
				k.Finish(dst.data, src.data, ranks)
				require.True(t, same(d, dst.data, finished(d, op, x, ranks), op == colligo.KindAvg), what)
				dst.check(t, what)
				require.Equal(t, x, src.data, what)
				k.Finish(src.data, src.data, ranks)
				require.True(t, same(d, src.data, dst.data, op == colligo.KindAvg), "%s in place", what)
				src.check(t, what)
			}
		}
	})
}

// TestWeight has floats scaled before they are added, and nothing else.
func TestWeight(t *testing.T) {
	everyKernel(func(d colligo.DType, op colligo.OpKind, k *kernels.Kernel) {
		want := 1.0
		if op == colligo.KindAvg && (d.Float() || d.Complex()) {
			want = 0.25
		}
		require.Equal(t, want, k.Weight(4), k.Name())
		require.Equal(t, 1.0, k.Weight(1), k.Name())
	})
}

func TestAverageTruncatesTowardZero(t *testing.T) {
	k, err := kernels.Lookup(colligo.Int8, colligo.KindAvg)
	require.NoError(t, err)
	x := []int8{7, -7, 127, -128, 1, -1}
	b := colligo.Of(x).CPUBytes()
	k.Finish(b, b, 2)
	require.Equal(t, []int8{3, -3, 63, -64, 0, 0}, x)
	k.Finish(b, b, 300) // more than an int8 holds
	require.Equal(t, make([]int8, 6), x)
}

func TestScaleIsItsTwin(t *testing.T) {
	rnd := random(t)
	factors := []float64{0.5, 1.0 / 3, 0, -2, 1e-30, 1e30, math.Inf(1), math.NaN(), 1}
	everyKernel(func(d colligo.DType, op colligo.OpKind, k *kernels.Kernel) {
		if op != colligo.KindPremulSum && op != colligo.KindMax || d.Integer() || d == colligo.Bool {
			return
		}
		for n := range 68 {
			f := factors[n%len(factors)]
			what := fmt.Sprintf("%s, %d elements, factor %g", k.Name(), n, f)
			x := operand(rnd, d, n*(1+n%2*40))
			for offset := range 2 {
				src, dst := guard(x, 0), guard(x, offset)
				k.Scale(dst.data, src.data, f)
				require.True(t, same(d, dst.data, scaled(d, x, f), true), what)
				dst.check(t, what)
				require.Equal(t, x, src.data, what)
				k.Scale(src.data, src.data, f)
				require.True(t, same(d, src.data, dst.data, true), "%s in place", what)
			}
		}
	})
}

func TestKernelMisusePanics(t *testing.T) {
	k, err := kernels.Lookup(colligo.Complex64, colligo.KindSum)
	require.NoError(t, err)
	ints, err := kernels.Lookup(colligo.Int32, colligo.KindSum)
	require.NoError(t, err)
	b := make([]byte, 64)
	require.PanicsWithValue(t, "kernels: sum complex64 of 16 and 8 bytes into 16 bytes, elements of 8",
		func() { k.Reduce(b[:16], b[:16], b[:8]) })
	require.Panics(t, func() { k.Reduce(b[:8], b[:16], b[:16]) })
	require.Panics(t, func() { k.Reduce(b[:12], b[:12], b[:12]) }, "half an element")
	require.PanicsWithValue(t, "kernels: finish of sum complex64 from 8 bytes into 16 bytes, elements of 8",
		func() { k.Finish(b[:16], b[:8], 1) })
	require.Panics(t, func() { k.Finish(b[:4], b[:4], 1) }, "half an element")
	require.Panics(t, func() { k.Finish(b, b, 0) })
	require.Panics(t, func() { k.Scale(b, b[:8], 1) })
	require.PanicsWithValue(t, "kernels: scale of sum int32, which is not floating point", func() { ints.Scale(b, b, 1) })
}

func TestKernelsAllocateNothing(t *testing.T) {
	a, b := make([]byte, 256), make([]byte, 256)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		k, err := kernels.Lookup(colligo.BFloat16, colligo.KindAvg)
		if err != nil {
			panic(err)
		}
		k.Reduce(a, a, b)
		k.Scale(a, a, 2)
		k.Finish(a, a, 3)
	}))
}

func FuzzReduce(f *testing.F) {
	f.Add(uint8(colligo.Float16), uint8(colligo.KindMin), uint8(1), []byte("some bytes to reduce, enough for each type"))
	f.Fuzz(func(t *testing.T, dtype, kind, offset uint8, data []byte) {
		d, op := colligo.DTypes()[int(dtype)%len(colligo.DTypes())], colligo.OpKind(kind)
		k, err := kernels.Lookup(d, op)
		if err != nil {
			return
		}
		half := len(data) / 2 / d.Size() * d.Size()
		x, y := data[:half], data[half:2*half]
		a, dst := guard(x, int(offset%16)), guard(y, int(offset/16))
		k.Reduce(dst.data, a.data, dst.data)
		require.True(t, same(d, dst.data, reduced(d, op, x, y), sloppy(op)), k.Name())
		dst.check(t, k.Name())
	})
}
