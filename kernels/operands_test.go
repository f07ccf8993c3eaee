package kernels_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
)

func random(t testing.TB) *rand.Rand {
	const seed = 7
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// operand is count elements of type d: half of them random bits, a quarter edges of the type, a quarter small numbers.
func operand(rnd *rand.Rand, d colligo.DType, count int) []byte {
	real := d.Real()
	out := []byte{}
	for len(out) < count*d.Size() {
		u := rnd.Uint64()
		switch rnd.IntN(4) {
		case 0:
			u = edge(rnd, real)
		case 1:
			n := int64(rnd.IntN(21) - 10)
			out = append(out, write(real, number{i: n, u: uint64(n), f: float64(n) / 2})...)
			continue
		}
		out = append(out, binary.LittleEndian.AppendUint64(nil, u)[:real.Size()]...)
	}
	return out
}

// edge returns bits of a value that loops are likely to get wrong.
func edge(rnd *rand.Rand, d colligo.DType) uint64 {
	if d.Float() {
		values := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(math.NaN(), -1),
			448, 57344, 65504, math.MaxFloat32, -math.MaxFloat32, math.MaxFloat64, 0x1p-24, 0x1p-149, -0x1p-149, 0x1p-1074}
		w := append(write(d, number{f: values[rnd.IntN(len(values))]}), make([]byte, 8)...)
		return binary.LittleEndian.Uint64(w)
	}
	top := uint64(1) << (8*d.Size() - 1)
	return []uint64{0, 1, top, top - 1, top + 1, 2*top - 1, 2*top - 2, 0x0101010101010101}[rnd.IntN(8)]
}

const canary = 0xa5

// A guarded slice lies between canaries, at an address that is offset bytes after a multiple of 64.
type guarded struct{ all, data []byte }

func guard(data []byte, offset int) guarded {
	all := bytes.Repeat([]byte{canary}, len(data)+192)
	start := 64 - int(uintptr(unsafe.Pointer(&all[0]))%64) + offset
	g := guarded{all, all[start : start+len(data)]}
	copy(g.data, data)
	return g
}

func (g guarded) check(t testing.TB, what string) {
	start := len(g.all) - cap(g.data)
	for i, b := range g.all {
		if (i < start || i >= start+len(g.data)) && b != canary {
			require.Failf(t, "canary overwritten", "%s: byte %d, the result has %d", what, i-start, len(g.data))
		}
	}
}

// everyKernel calls f for each legal pair of type and kind.
func everyKernel(f func(d colligo.DType, op colligo.OpKind, k *kernels.Kernel)) {
	for _, d := range colligo.DTypes() {
		for op := colligo.KindSum; op <= colligo.KindPremulSum; op++ {
			if k, err := kernels.Lookup(d, op); err == nil {
				f(d, op, k)
			}
		}
	}
}
