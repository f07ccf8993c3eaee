package ptx

import (
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
)

// mostDivisor is more ranks than any group has.
const mostDivisor = 1 << 16

// fma returns x*y+z rounded once, to the precision of float32.
func fma(x, y, z float32) float32 {
	exact := func(v float32) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(float64(v)) }
	sum, _ := exact(0).Add(exact(0).Mul(exact(x), exact(y)), exact(z)).Float32()
	return sum
}

// TestReciprocal32 proves the refinement of fold.h. The device's approximation is at most one unit in the last place off. From
// each of the three numbers that it can be, the result is 1/n rounded to nearest.
func TestReciprocal32(t *testing.T) {
	t.Parallel()
	for n := float32(2); n <= mostDivisor; n++ {
		want := 1 / n
		for _, r := range []float32{math.Nextafter32(want, 0), want, math.Nextafter32(want, 1)} {
			require.Equal(t, want, fma(fma(-n, r, 1), r, r), "1/%v from %v", n, r)
		}
	}
}

// TestReciprocal64 begins with approximations that are right to 20 bits or worse, on both sides.
func TestReciprocal64(t *testing.T) {
	t.Parallel()
	for n := float64(2); n <= mostDivisor; n++ {
		for _, off := range []float64{-0x1p-18, -0x1.8p-20, -0x1p-30, 0, 0x1p-52, 0x1.4p-21, 0x1p-18} {
			r := (1 + off) / n
			for range 3 {
				r = math.FMA(math.FMA(-n, r, 1), r, r)
			}
			require.Equal(t, 1/n, r, "1/%v from %v off", n, off)
		}
	}
}
