package kernels_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
)

// everyVector calls f for each kernel of each instruction set of this machine, with the kernel of Go loops that is its twin.
func everyVector(t *testing.T, f func(t *testing.T, d colligo.DType, op colligo.OpKind, k, twin *kernels.Kernel)) {
	for _, set := range kernels.InstructionSets()[1:] {
		t.Run(set, func(t *testing.T) {
			everyKernel(func(d colligo.DType, op colligo.OpKind, twin *kernels.Kernel) {
				f(t, d, op, kernels.LookupIn(set, d, op), kernels.LookupIn("go", d, op))
			})
		})
	}
}

// vectorLengths are around the lengths of vectors and blocks, in bytes.
func vectorLengths(size int) []int {
	var all []int
	for _, n := range []int{16, 32, 64, 128, 256, 320, 512, 1024} {
		for d := -2 * size; d <= 2*size; d += size {
			if n := (n + d) / size * size; n >= 0 {
				all = append(all, n)
			}
		}
	}
	return all
}

// TestVectorsAreTheirTwins holds every vector loop to the Go loop bit by bit, which payload a NaN has included, at every
// alignment and in place.
func TestVectorsAreTheirTwins(t *testing.T) {
	rnd := random(t)
	everyVector(t, func(t *testing.T, d colligo.DType, op colligo.OpKind, k, twin *kernels.Kernel) {
		for i, n := range vectorLengths(d.Size()) {
			for j := range 3 { // over all lengths, every alignment of each operand
				offset := (3*i + j) % 64
				l := layout{offset, (offset * 7) % 64, (offset * 3) % 64, i%4 == 1, i%4 == 2}
				checkVector(t, rnd, d, op, k, twin, n, l)
			}
		}
	})
}

// layout is where operands lie and whether dst is one of them.
type layout struct {
	dst, a, b int
	isA, isB  bool
}

// check compares Reduce, Fold, Finish and Scale on random operands of n bytes.
func checkVector(t testing.TB, rnd *rand.Rand, d colligo.DType, op colligo.OpKind, k, twin *kernels.Kernel, n int, l layout) {
	what := fmt.Sprintf("%s, %d bytes, %+v", k.Name(), n, l)
	x, y, z := operand(rnd, d, n/d.Size()), operand(rnd, d, n/d.Size()), operand(rnd, d, n/d.Size())
	run := func(k *kernels.Kernel, f func(k *kernels.Kernel, dst, a, b, c []byte)) []byte {
		dst, a, b, c := guard(z, l.dst), guard(x, l.a), guard(y, l.b), guard(z, l.a)
		switch {
		case l.isA:
			dst = a
		case l.isB:
			dst = b
		}
		f(k, dst.data, a.data, b.data, c.data)
		for _, g := range []guarded{dst, a, b, c} {
			g.check(t, what)
		}
		require.True(t, l.isA || bytes.Equal(a.data, x), "%s: a was written", what)
		require.True(t, l.isB || bytes.Equal(b.data, y), "%s: b was written", what)
		return dst.data
	}
	divisor := []int{1, 2, 3, 7, 100, 255, 256, 257, 1000, 1 << 20, math.MaxInt32, math.MaxInt32 + 1, 1 << 40, 3<<40 + 1, math.MaxInt64}[rnd.IntN(15)]
	if d == colligo.Bool {
		divisor = 1
	}
	factor := []float64{0.5, 1.0 / 3, 0, -2, 1e-30, 1e30, math.Inf(1), math.NaN(), 1, 1e-6}[rnd.IntN(10)]
	calls := map[string]func(k *kernels.Kernel, dst, a, b, c []byte){
		"reduce":    func(k *kernels.Kernel, dst, a, b, _ []byte) { k.Reduce(dst, a, b) },
		"fold of 1": func(k *kernels.Kernel, dst, a, _, _ []byte) { k.Fold(dst, [][]byte{a}, divisor) },
		"fold of 2": func(k *kernels.Kernel, dst, a, b, _ []byte) { k.Fold(dst, [][]byte{a, b}, divisor) },
		"fold of 5": func(k *kernels.Kernel, dst, a, b, c []byte) { k.Fold(dst, [][]byte{a, b, c, b, a}, divisor) },
		"finish":    func(k *kernels.Kernel, dst, a, _, _ []byte) { k.Finish(dst, a, divisor) },
		"scale":     func(k *kernels.Kernel, dst, a, _, _ []byte) { k.Scale(dst, a, factor) },
	}
	if d.Integer() || d == colligo.Bool {
		delete(calls, "scale")
	}
	for name, f := range calls {
		want, got := run(twin, f), run(k, f)
		if !bytes.Equal(want, got) {
			i := 0
			for want[i] == got[i] {
				i++
			}
			i = i / d.Size() * d.Size()
			require.Failf(t, "not its twin", "%s: %s, divisor %d, factor %g: element at byte %d of %x %s %x is %x, not %x", name, what, divisor, factor,
				i, x[i:i+d.Size()], op, y[i:i+d.Size()], got[i:i+d.Size()], want[i:i+d.Size()])
		}
	}
}

// TestVectorsOfEveryPattern takes every float16, bfloat16 and byte through every loop, beside random partners.
func TestVectorsOfEveryPattern(t *testing.T) {
	rnd := random(t)
	every := make([]byte, 2<<16)
	for i := range 1 << 16 {
		every[2*i], every[2*i+1] = byte(i), byte(i>>8)
	}
	everyVector(t, func(t *testing.T, d colligo.DType, op colligo.OpKind, k, twin *kernels.Kernel) {
		if d.Size() > 2 {
			return
		}
		other := operand(rnd, d, len(every)/d.Size())
		got, want := make([]byte, len(every)), make([]byte, len(every))
		for range 4 {
			k.Reduce(got, every, other)
			twin.Reduce(want, every, other)
			require.True(t, bytes.Equal(want, got), k.Name())
			k.Reduce(got, other, every)
			twin.Reduce(want, other, every)
			require.True(t, bytes.Equal(want, got), k.Name())
			for _, by := range []int{2, 3, 5, 6, 7, 11, 100, 127, 128, 129, 255, 256} {
				k.Finish(got, every, by)
				twin.Finish(want, every, by)
				require.True(t, bytes.Equal(want, got), "%s by %d", k.Name(), by)
			}
			rnd.Shuffle(len(other)/d.Size(), func(i, j int) {
				for b := range d.Size() {
					i, j := i*d.Size()+b, j*d.Size()+b
					other[i], other[j] = other[j], other[i]
				}
			})
		}
	})
}

// TestQuotientsAtTheirEdges divides what lies beside multiples of divisors, where a reciprocal that is a little wrong shows.
func TestQuotientsAtTheirEdges(t *testing.T) {
	rnd := random(t)
	for _, set := range kernels.InstructionSets() {
		for range 3000 {
			by := int(rnd.Uint64()>>(1+rnd.IntN(62))) | 2
			if rnd.IntN(4) == 0 {
				by = 1 << (1 + rnd.IntN(62))
			}
			var x []int64
			for range 8 {
				multiple := int64(rnd.Uint64()) >> rnd.IntN(64) / int64(by) * int64(by)
				x = append(x, multiple-1, multiple, multiple+1)
			}
			x = append(x, math.MinInt64, math.MinInt64+1, math.MaxInt64, math.MaxInt64-1, math.MinInt32, math.MaxInt32, -1, 0)
			checkQuotients(t, set, x, by)
		}
	}
}

func checkQuotients(t *testing.T, set string, x []int64, by int) {
	longs, words := make([]int64, len(x)), make([]int32, len(x))
	for i := range x {
		longs[i], words[i] = x[i]/int64(by), int32(int64(int32(x[i]))/int64(by))
	}
	b := bytes.Clone(colligo.Of(x).CPUBytes())
	kernels.LookupIn(set, colligo.Int64, colligo.KindAvg).Finish(b, b, by)
	require.Equal(t, colligo.Of(longs).CPUBytes(), b, "%s: %v by %d", set, x, by)
	narrow := make([]int32, len(x))
	for i := range x {
		narrow[i] = int32(x[i])
	}
	b = colligo.Of(narrow).CPUBytes()
	kernels.LookupIn(set, colligo.Int32, colligo.KindAvg).Finish(b, b, by)
	require.Equal(t, colligo.Of(words).CPUBytes(), b, "%s: %v by %d", set, x, by)
}

// TestLargeResultsGoPastTheCaches holds the stores that do so, behind every alignment of dst.
func TestLargeResultsGoPastTheCaches(t *testing.T) {
	rnd := random(t)
	x, y := make([]byte, kernels.StreamBytes+4096), make([]byte, kernels.StreamBytes+4096)
	for i := range x {
		x[i], y[i] = byte(rnd.Uint32()), byte(rnd.Uint32())
	}
	for _, d := range []colligo.DType{colligo.Uint8, colligo.BFloat16, colligo.Float16, colligo.Float32, colligo.Complex128} {
		for _, set := range kernels.InstructionSets()[1:] {
			k, twin := kernels.LookupIn(set, d, colligo.KindSum), kernels.LookupIn("go", d, colligo.KindSum)
			n := (kernels.StreamBytes + rnd.IntN(4096)) / d.Size() * d.Size()
			want := make([]byte, n)
			twin.Reduce(want, x[:n], y[:n])
			for _, offset := range []int{0, 1, 8, 16, 48, 62} {
				dst := guard(make([]byte, n), offset)
				k.Reduce(dst.data, x[:n], y[:n])
				require.True(t, bytes.Equal(want, dst.data), "%s %s", set, k.Name())
				dst.check(t, k.Name())
				clear(dst.data)
				k.Fold(dst.data, [][]byte{x[:n], y[:n]}, 1)
				require.True(t, bytes.Equal(want, dst.data), "%s %s, folded", set, k.Name())
				dst.check(t, k.Name())
			}
		}
	}
}

func FuzzVectors(f *testing.F) {
	f.Add(uint64(1), uint8(colligo.Float16), uint8(colligo.KindMin), uint16(100), uint8(1), uint8(2), uint8(3), uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, dtype, kind uint8, n uint16, dst, a, b, same uint8) {
		d, op := colligo.DTypes()[int(dtype)%len(colligo.DTypes())], colligo.OpKind(kind)
		if _, _, err := op.Check(d); err != nil {
			return
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		bytes := int(n) % 5000 / d.Size() * d.Size()
		for _, set := range kernels.InstructionSets()[1:] {
			checkVector(t, rnd, d, op, kernels.LookupIn(set, d, op), kernels.LookupIn("go", d, op), bytes,
				layout{int(dst % 64), int(a % 64), int(b % 64), same == 1, same == 2})
		}
	})
}
