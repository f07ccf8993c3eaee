package kernels_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
)

// places lists the offsets of a view's elements in row-major order: the dumb twin of a walk.
func places(offset int, shape, strides []int) []int {
	if len(shape) == 0 {
		return []int{offset}
	}
	var all []int
	for i := range shape[0] {
		all = append(all, places(offset+i*strides[0], shape[1:], strides[1:])...)
	}
	return all
}

// A view is a tensor over memory of its own, in which no two elements share a place.
type view struct {
	tensor colligo.Tensor
	memory []byte
	places []int
}

// viewOf lays shape out with its dimensions in random order and random gaps.
func viewOf(rnd *rand.Rand, d colligo.DType, shape []int) view {
	strides, next := make([]int, len(shape)), 1
	for _, i := range rnd.Perm(len(shape)) {
		next += rnd.IntN(2) * rnd.IntN(3)
		strides[i] = next
		next *= max(shape[i], 1)
	}
	if rnd.IntN(3) == 0 { // row-major without gaps
		next = 1
		for i := len(shape) - 1; i >= 0; i-- {
			strides[i] = next
			next *= max(shape[i], 1)
		}
	}
	offset := rnd.IntN(3)
	memory := operand(rnd, d, offset+next+2)
	base := colligo.Raw(colligo.Of(memory).Pointer(), len(memory)/d.Size(), d)
	return view{base.Strided(offset, shape, strides), memory, places(offset, shape, strides)}
}

// shapeOf is a random shape of count elements.
func shapeOf(rnd *rand.Rand, count int) []int {
	shape := []int{}
	for range rnd.IntN(9) {
		var divisors []int
		for i := 1; i <= count; i++ {
			if count%i == 0 {
				divisors = append(divisors, i)
			}
		}
		if len(divisors) == 0 {
			return []int{3, 0, 2}
		}
		n := divisors[rnd.IntN(len(divisors))]
		shape, count = append(shape, n), count/n
	}
	return append(shape, count)
}

func checkCopy(t *testing.T, dst, src view) {
	want := bytes.Clone(dst.memory)
	size := dst.tensor.DType().Size()
	for i, p := range dst.places {
		copy(want[p*size:(p+1)*size], src.memory[src.places[i]*size:])
	}
	before := bytes.Clone(src.memory)
	kernels.Copy(dst.tensor, src.tensor)
	require.Equal(t, want, dst.memory, "%v to %v", src.tensor, dst.tensor)
	require.Equal(t, before, src.memory)
}

func TestCopyIsItsTwin(t *testing.T) {
	rnd := random(t)
	for _, d := range colligo.DTypes() {
		for _, count := range []int{0, 1, 2, 3, 7, 24, 60, 64, 210} {
			for range 20 {
				checkCopy(t, viewOf(rnd, d, shapeOf(rnd, count)), viewOf(rnd, d, shapeOf(rnd, count)))
			}
		}
	}
}

func TestCopySpreadsOneElement(t *testing.T) {
	dst := make([]int32, 4)
	kernels.Copy(colligo.Of(dst, 2, 2), colligo.Of([]int32{5, 6}).Strided(1, []int{2, 2}, []int{0, 0}))
	require.Equal(t, []int32{6, 6, 6, 6}, dst)
}

func TestCopyOverlapping(t *testing.T) {
	s := []int16{1, 2, 3, 4, 5}
	kernels.Copy(colligo.Of(s).Slice(1, 5), colligo.Of(s).Slice(0, 4))
	require.Equal(t, []int16{1, 1, 2, 3, 4}, s)
}

func TestCopyMisusePanics(t *testing.T) {
	x := colligo.Of(make([]float32, 4))
	require.PanicsWithValue(t, "kernels: copy of int32[4] cpu to float32[4] cpu",
		func() { kernels.Copy(x, colligo.Of(make([]int32, 4))) })
	require.Panics(t, func() { kernels.Copy(x, x.Slice(0, 3)) })
	gpu := colligo.OnDevice(colligo.Device{Kind: colligo.CUDA}, 4096, 4, colligo.Float32)
	require.Panics(t, func() { kernels.Copy(x, gpu) })
	require.Panics(t, func() { kernels.Copy(gpu, gpu) })
	require.Panics(t, func() { kernels.Copy(colligo.Tensor{}, colligo.Tensor{}) })
}

func TestCopyAllocatesNothing(t *testing.T) {
	x := colligo.Of(make([]float32, 24))
	y := colligo.Of(make([]float32, 24)).Strided(0, []int{2, 3, 4}, []int{1, 8, 2})
	require.Zero(t, testing.AllocsPerRun(100, func() { kernels.Copy(x, y) }))
}

func FuzzCopy(f *testing.F) {
	f.Add(uint64(1), uint8(9), uint8(24))
	f.Fuzz(func(t *testing.T, seed uint64, dtype, count uint8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		d := colligo.DTypes()[int(dtype)%len(colligo.DTypes())]
		checkCopy(t, viewOf(rnd, d, shapeOf(rnd, int(count))), viewOf(rnd, d, shapeOf(rnd, int(count))))
	})
}
