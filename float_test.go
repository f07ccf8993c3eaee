package colligo_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

// A narrow float format and its conversions, patterns widened to int.
type narrow struct {
	name       string
	exp, man   int // bits
	bias       int
	infinities bool
	encode     func(float32) int
	decode     func(int) float32
}

var narrows = []narrow{
	{"float16", 5, 10, 15, true,
		func(f float32) int { return int(colligo.Float16FromFloat32(f)) },
		func(b int) float32 { return colligo.Float16ToFloat32(uint16(b)) }},
	{"bfloat16", 8, 7, 127, true,
		func(f float32) int { return int(colligo.BFloat16FromFloat32(f)) },
		func(b int) float32 { return colligo.BFloat16ToFloat32(uint16(b)) }},
	{"float8_e4m3fn", 4, 3, 7, false,
		func(f float32) int { return int(colligo.Float8E4M3FNFromFloat32(f)) },
		func(b int) float32 { return colligo.Float8E4M3FNToFloat32(uint8(b)) }},
	{"float8_e5m2", 5, 2, 15, true,
		func(f float32) int { return int(colligo.Float8E5M2FromFloat32(f)) },
		func(b int) float32 { return colligo.Float8E5M2ToFloat32(uint8(b)) }},
}

func (n narrow) sign() int { return 1 << (n.exp + n.man) }

// limit is the magnitude after that of the largest number: infinity's pattern, or NaN's where there is none.
func (n narrow) limit() int {
	if n.infinities {
		return (1<<n.exp - 1) << n.man
	}
	return n.sign() - 1
}

// value is the dumb decoder of a magnitude. It gives the limit the value that a wider exponent would give it, where
// rounding to infinity begins to be nearer.
func (n narrow) value(magnitude int) float64 {
	e, m := magnitude>>n.man, magnitude&(1<<n.man-1)
	if e == 0 {
		return math.Ldexp(float64(m), 1-n.bias-n.man)
	}
	return math.Ldexp(float64(m+1<<n.man), e-n.bias-n.man)
}

// nearest is the dumb encoder. It halves the magnitudes until it has f's two neighbours, and takes the nearer one. If both
// are as near, it takes the even one. A NaN gives -1.
func (n narrow) nearest(f float32) int {
	if f != f {
		return -1
	}
	sign := 0
	if math.Signbit(float64(f)) {
		sign = n.sign()
	}
	a := math.Abs(float64(f))
	low, high := 0, n.limit()
	if a >= n.value(high) {
		return sign | high
	}
	for high-low > 1 {
		if mid := (low + high) / 2; n.value(mid) <= a {
			low = mid
		} else {
			high = mid
		}
	}
	down, up := a-n.value(low), n.value(high)-a
	if down < up || down == up && low%2 == 0 {
		return sign | low
	}
	return sign | high
}

func (n narrow) isNaN(b int) bool {
	m := b &^ n.sign()
	return m > n.limit() || m == n.limit() && !n.infinities
}

func (n narrow) check(t *testing.T, f float32) {
	got, want := n.encode(f), n.nearest(f)
	switch {
	case want < 0 && (!n.isNaN(got) || got&n.sign() != 0 != (math.Float32bits(f)>>31 != 0)):
		t.Fatalf("%s of NaN %#x is %#x", n.name, math.Float32bits(f), got)
	case want >= 0 && got != want:
		t.Fatalf("%s of %g (%#x) is %#x, want %#x", n.name, f, math.Float32bits(f), got, want)
	}
}

func TestNarrowDecodesEveryPattern(t *testing.T) {
	for _, n := range narrows {
		for b := range 2 * n.sign() {
			got, want := float64(n.decode(b)), n.value(b&^n.sign())
			if b&n.sign() != 0 {
				want = -want
			}
			switch m := b &^ n.sign(); {
			case n.isNaN(b):
				want = math.NaN()
			case m == n.limit():
				want = math.Copysign(math.Inf(1), want)
			}
			if math.IsNaN(want) {
				require.True(t, math.IsNaN(got), "%s %#x is %g", n.name, b, got)
			} else {
				require.Equal(t, math.Float64bits(want), math.Float64bits(got), "%s %#x is %g, want %g", n.name, b, got, want)
			}
			require.Equal(t, b&n.sign() != 0, math.Signbit(got), "sign of %s %#x", n.name, b)
		}
	}
}

func TestNarrowRoundTripsEveryPattern(t *testing.T) {
	for _, n := range narrows {
		for b := range 2 * n.sign() {
			got := n.encode(n.decode(b))
			if n.isNaN(b) {
				require.True(t, n.isNaN(got), "%s NaN %#x became %#x", n.name, b, got)
				require.Equal(t, b&n.sign(), got&n.sign(), "sign of %s NaN %#x", n.name, b)
			} else {
				require.Equal(t, b, got, "%s %#x", n.name, b)
			}
		}
	}
}

// Between neighbours the rounding changes at one point only. Values, midpoints and the float32 on either side of each
// therefore say everything about a monotonic encoder.
func TestNarrowRoundsToNearestEven(t *testing.T) {
	for _, n := range narrows {
		for m := range n.limit() {
			mid := float32((n.value(m) + n.value(m+1)) / 2)
			for _, f := range []float32{float32(n.value(m)), mid, float32(n.value(m + 1))} {
				for _, g := range []float32{math.Nextafter32(f, 0), f, math.Nextafter32(f, math.MaxFloat32)} {
					n.check(t, g)
					n.check(t, -g)
				}
			}
		}
	}
}

func TestNarrowOfAnyFloat32(t *testing.T) {
	const seed = 1
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, n := range narrows {
		for _, b := range []uint32{0, 1, 0x7fffff, 0x800000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fbfffff, 0x7fc00000, 0x7fffffff} {
			n.check(t, math.Float32frombits(b))
			n.check(t, math.Float32frombits(b|1<<31))
		}
		for range 200_000 {
			n.check(t, math.Float32frombits(rnd.Uint32()))
		}
	}
}

func TestNarrowOverflow(t *testing.T) {
	require.EqualValues(t, 0x7c00, colligo.Float16FromFloat32(65520))
	require.EqualValues(t, 0x7bff, colligo.Float16FromFloat32(65519))
	require.EqualValues(t, 0x7f80, colligo.BFloat16FromFloat32(math.MaxFloat32))
	require.EqualValues(t, 0x7e, colligo.Float8E4M3FNFromFloat32(464), "a tie between 448 and NaN's place is 448")
	require.EqualValues(t, 0x7f, colligo.Float8E4M3FNFromFloat32(465), "no saturation")
	require.EqualValues(t, 0xff, colligo.Float8E4M3FNFromFloat32(float32(math.Inf(-1))))
	require.EqualValues(t, 0x7b, colligo.Float8E5M2FromFloat32(61439))
	require.EqualValues(t, 0x7c, colligo.Float8E5M2FromFloat32(61440))
}

func FuzzNarrow(f *testing.F) {
	f.Add(uint32(0x38800000))
	f.Fuzz(func(t *testing.T, b uint32) {
		for _, n := range narrows {
			n.check(t, math.Float32frombits(b))
		}
	})
}
