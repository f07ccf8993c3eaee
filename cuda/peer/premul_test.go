package peer

import (
	"fmt"
	"testing"

	"github.com/colligo-go/colligo"
)

// TestPremultiplied goes by LL and tiles, in one round and, with 70,000 elements, in several.
func TestPremultiplied(t *testing.T) {
	t.Parallel()
	half := colligo.PremulSum(0.5)
	var all []reduction
	for _, d := range colligo.DTypes() {
		if underRace && d != colligo.Float32 && d != colligo.BFloat16 {
			continue // it sees no types
		}
		if _, _, err := colligo.KindPremulSum.Check(d); err == nil {
			all = append(all, reduction{d, colligo.KindPremulSum})
		}
	}
	for _, size := range fewer(1, 2, 3) {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			o := Options{Memory: 9 << 20}
			onSim(t, size, o, func(r *rank) error {
				for _, k := range all {
					if err := r.folds(k.dtype, half, 101); err != nil {
						return err
					}
				}
				return first(r.folds(colligo.Float32, half, 0),
					func() error { return r.folds(colligo.Float32, half, 70_000) },
					func() error { return r.folds(colligo.BFloat16, half, 1) })
			}, all...)
		})
	}
}

// multipliesBy reduces by a factor of this rank that its device has, of tensors whose dimensions lie in another order, too.
func (r *rank) multipliesBy(d colligo.DType, n int) error {
	k, size, me := colligo.KindSum, r.g.Size(), r.g.Rank()
	factor := r.tensor(1, d.Real(), 0, 1)
	if err := r.put(factor, twos(d.Real())); err != nil {
		return err
	}
	want, err := reduced(d, colligo.PremulSum(2), size, n*size)
	if err != nil {
		return err
	}
	by := colligo.PremulSumBy(factor)
	x := r.tensor(0, d, 0, n*size)
	y := x.Strided(0, []int{n, size}, []int{1, n})
	for _, t := range []colligo.Tensor{x, y} {
		if err := r.try("premul_sum by a device's factor", x, values(d, k, me, n*size), x, want, func() error { return r.g.AllReduce(r.ctx, t, by) }); err != nil {
			return err
		}
	}
	out := r.tensor(1, d, 4096, n)
	part := want[me*out.Size():][:out.Size()]
	return r.try("scattered premul_sum by a device's factor", x, values(d, k, me, n*size), out, part, func() error {
		if err := r.put(factor, twos(d.Real())); err != nil { // which lies before the output
			return err
		}
		return r.g.ReduceScatterTensor(r.ctx, out, x, by)
	})
}

// twos returns the bits of a 2.
func twos(d colligo.DType) []byte {
	b := make([]byte, d.Size())
	putValue(b, d, 2)
	return b
}

func TestPremultipliedByDevice(t *testing.T) {
	t.Parallel()
	var all []reduction
	types := []colligo.DType{colligo.Float32, colligo.BFloat16, colligo.Complex64}
	for _, d := range types {
		all = append(all, reduction{d, colligo.KindPremulSum})
	}
	for _, staged := range []bool{false, true} {
		for _, size := range fewer(1, 2, 3) {
			t.Run(fmt.Sprintf("staged=%v/ranks=%d", staged, size), func(t *testing.T) {
				t.Parallel()
				o := Options{Memory: 9 << 20, Staged: staged}
				onSim(t, size, o, func(r *rank) error {
					for _, d := range types {
						if err := first(r.multipliesBy(d, 5), func() error { return r.multipliesBy(d, 10_001) }); err != nil {
							return err
						}
					}
					return nil
				}, all...)
			})
		}
	}
}
