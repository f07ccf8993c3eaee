package kernels_test

import (
	"fmt"
	"testing"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
)

func BenchmarkReduce(b *testing.B) {
	for _, d := range colligo.DTypes() {
		for op := colligo.KindSum; op <= colligo.KindPremulSum; op++ {
			k, err := kernels.Lookup(d, op)
			if err != nil || op == colligo.KindAvg || op == colligo.KindPremulSum {
				continue // not defined, or the same loop as the sum
			}
			for _, n := range []int{4 << 10, 64 << 10, 16 << 20} {
				b.Run(fmt.Sprintf("dtype=%v/op=%v/bytes=%d", d, op, n), func(b *testing.B) {
					dst, src := small(n), small(n)
					b.SetBytes(int64(n))
					for b.Loop() {
						k.Reduce(dst, dst, src)
					}
				})
			}
		}
	}
}

func BenchmarkReduceUnaligned(b *testing.B) {
	const n = 64 << 10
	for _, d := range []colligo.DType{colligo.BFloat16, colligo.Float32} {
		k, err := kernels.Lookup(d, colligo.KindSum)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("dtype=%v/op=sum/bytes=%d", d, n), func(b *testing.B) {
			dst, src := small(n), small(n + 1)[1:]
			b.SetBytes(n)
			for b.Loop() {
				k.Reduce(dst, dst, src)
			}
		})
	}
}

func BenchmarkCopy(b *testing.B) {
	const n = 256
	x := colligo.Of(make([]float32, n*n), n, n)
	padded := colligo.Of(make([]float32, 2*n*n)).Strided(0, []int{n, n}, []int{2 * n, 1})
	for name, src := range map[string]colligo.Tensor{"contiguous": x, "padded": padded,
		"transposed": x.Strided(0, []int{n, n}, []int{1, n})} {
		b.Run(fmt.Sprintf("dtype=float32/layout=%s/bytes=%d", name, x.Size()), func(b *testing.B) {
			dst := colligo.Of(make([]float32, n*n), n, n)
			b.SetBytes(int64(x.Size()))
			for b.Loop() {
				kernels.Copy(dst, src)
			}
		})
	}
}

// small is n bytes that are small numbers in every type: no infinities, no subnormals, which some machines compute slowly.
func small(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0x3c
	}
	return b
}
