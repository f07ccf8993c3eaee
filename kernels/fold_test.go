package kernels_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
)

func TestFoldOfTwoIsReduce(t *testing.T) {
	rnd := random(t)
	everyKernel(func(d colligo.DType, op colligo.OpKind, k *kernels.Kernel) {
		for _, n := range []int{0, 1, 37} {
			a, b := operand(rnd, d, n), operand(rnd, d, n)
			dst := make([]byte, len(a)+1)[1:]
			require.NoError(t, kernels.Fold(d, op, dst, [][]byte{a, b}, 1))
			require.True(t, same(d, dst, reduced(d, op, a, b), sloppy(op)), k.Name())
			want := reduced(d, op, b, a)
			require.NoError(t, kernels.Fold(d, op, a, [][]byte{b, a}, 0))
			require.True(t, same(d, a, want, sloppy(op)), "%s in place", k.Name())
		}
	})
}

func TestFoldRoundsOnce(t *testing.T) {
	// 256 has bfloat16 spaced by 2: each 1 alone is lost, four together are not.
	one, big := colligo.BFloat16FromFloat32(1), colligo.BFloat16FromFloat32(256)
	word := func(u uint16) []byte { return binary.LittleEndian.AppendUint16(nil, u) }
	dst := make([]byte, 2)
	require.NoError(t, kernels.Fold(colligo.BFloat16, colligo.KindSum, dst, [][]byte{word(big), word(one), word(one), word(one), word(one)}, 1))
	require.Equal(t, colligo.BFloat16FromFloat32(260), binary.LittleEndian.Uint16(dst))
	require.NoError(t, kernels.Fold(colligo.BFloat16, colligo.KindAvg, dst, [][]byte{word(big), word(one), word(one)}, 2))
	require.Equal(t, colligo.BFloat16FromFloat32(129), binary.LittleEndian.Uint16(dst))
}

// TestAverageDoesNotOverflow averages the greatest numbers, of which two are too much for a sum. It does so by Fold, by the steps of
// a ring, and by what the CPU does.
func TestAverageDoesNotOverflow(t *testing.T) {
	for _, d := range colligo.DTypes() {
		if !d.Float() {
			continue
		}
		greatest := map[colligo.DType][]byte{colligo.Float16: {0xff, 0x7b}, colligo.BFloat16: {0x7f, 0x7f}, colligo.Float32: {0xff, 0xff, 0x7f, 0x7f},
			colligo.Float64: {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xef, 0x7f}, colligo.Float8E4M3FN: {0x7e}, colligo.Float8E5M2: {0x7b}}[d]
		k, err := kernels.Lookup(d, colligo.KindAvg)
		require.NoError(t, err)
		for _, ranks := range []int{2, 4, 8} { // 1/ranks is exact
			all := make([][]byte, ranks)
			for i := range all {
				all[i] = greatest
			}
			dst := make([]byte, d.Size())
			require.NoError(t, kernels.Fold(d, colligo.KindAvg, dst, all, ranks))
			require.Equal(t, greatest, dst, "%v, %d ranks", d, ranks)
			if d.Size() == 1 && ranks == 8 {
				continue // sums that are rounded at every step to so few bits come out too great
			}

			sum, own := slices.Clone(greatest), make([]byte, d.Size())
			for s := 1; s < ranks; s++ {
				step := kernels.Step{Ranks: ranks, SumLast: s > 1, Partial: s < ranks-1}
				require.NoError(t, kernels.FoldStep(d, colligo.KindAvg, sum, [][]byte{greatest, sum}, step))
			}
			require.Equal(t, greatest, sum, "%v, ring of %d ranks", d, ranks)

			k.Scale(dst, greatest, k.Weight(ranks))
			for range ranks - 1 {
				k.Scale(own, greatest, k.Weight(ranks))
				k.Reduce(dst, dst, own)
			}
			k.Finish(dst, dst, ranks)
			require.Equal(t, greatest, dst, "%v, CPU of %d ranks", d, ranks)
		}
	}
}

// TestFoldStepOfIntegers divides the whole sum only.
func TestFoldStepOfIntegers(t *testing.T) {
	sum := []byte{10}
	require.NoError(t, kernels.FoldStep(colligo.Uint8, colligo.KindAvg, sum, [][]byte{{11}, sum}, kernels.Step{Ranks: 3, Partial: true}))
	require.Equal(t, []byte{21}, sum)
	require.NoError(t, kernels.FoldStep(colligo.Uint8, colligo.KindAvg, sum, [][]byte{{3}, sum}, kernels.Step{Ranks: 3, SumLast: true}))
	require.Equal(t, []byte{8}, sum)
}

func TestFoldOfMany(t *testing.T) {
	in := [][]byte{{200, 0, 7}, {100, 2, 7}, {3, 0, 7}}
	for _, c := range []struct {
		d       colligo.DType
		k       colligo.OpKind
		divisor int
		want    []byte
	}{
		{colligo.Uint8, colligo.KindSum, 1, []byte{47, 2, 21}},
		{colligo.Uint8, colligo.KindAvg, 2, []byte{23, 1, 10}},
		{colligo.Int8, colligo.KindMax, 9, []byte{100, 2, 7}},
		{colligo.Bool, colligo.KindBXor, 1, []byte{1, 1, 1}},
		{colligo.Bool, colligo.KindSum, 1, []byte{1, 1, 1}},
		{colligo.Bool, colligo.KindProd, 1, []byte{1, 0, 1}},
	} {
		dst := make([]byte, 3)
		require.NoError(t, kernels.Fold(c.d, c.k, dst, in, c.divisor))
		require.Equal(t, c.want, dst, "%v of %v", c.k, c.d)
	}
	require.ErrorIs(t, kernels.Fold(colligo.Float32, colligo.KindBOr, nil, in, 1), colligo.ErrOp)
	require.Panics(t, func() { _ = kernels.Fold(colligo.Uint8, colligo.KindSum, make([]byte, 2), in, 1) })
}
