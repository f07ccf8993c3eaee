package kernels_test

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/colligo-go/colligo"
)

// The dumb twins of the kernels: one element at a time, no aliasing, no care for speed.

// number is one real element, in the field that its type calls for.
type number struct {
	i int64   // signed integers
	u uint64  // unsigned integers and bools
	f float64 // floating point
}

// read returns the element of real type d in b.
func read(d colligo.DType, b []byte) (n number) {
	w := make([]byte, 8)
	copy(w, b[:d.Size()])
	n.u = binary.LittleEndian.Uint64(w)
	shift := 64 - 8*d.Size()
	n.i = int64(n.u<<shift) >> shift
	switch d {
	case colligo.Float16:
		n.f = float64(colligo.Float16ToFloat32(uint16(n.u)))
	case colligo.BFloat16:
		n.f = float64(colligo.BFloat16ToFloat32(uint16(n.u)))
	case colligo.Float8E4M3FN:
		n.f = float64(colligo.Float8E4M3FNToFloat32(uint8(n.u)))
	case colligo.Float8E5M2:
		n.f = float64(colligo.Float8E5M2ToFloat32(uint8(n.u)))
	case colligo.Float32:
		n.f = float64(math.Float32frombits(uint32(n.u)))
	case colligo.Float64:
		n.f = math.Float64frombits(n.u)
	}
	return n
}

// write returns the bytes of n as real type d. It rounds floats from float64 to float32 first, unless d is float64.
func write(d colligo.DType, n number) []byte {
	u := n.u
	switch f := float32(n.f); d {
	case colligo.Float16:
		u = uint64(colligo.Float16FromFloat32(f))
	case colligo.BFloat16:
		u = uint64(colligo.BFloat16FromFloat32(f))
	case colligo.Float8E4M3FN:
		u = uint64(colligo.Float8E4M3FNFromFloat32(f))
	case colligo.Float8E5M2:
		u = uint64(colligo.Float8E5M2FromFloat32(f))
	case colligo.Float32:
		u = uint64(math.Float32bits(f))
	case colligo.Float64:
		u = math.Float64bits(n.f)
	case colligo.Int8, colligo.Int16, colligo.Int32, colligo.Int64:
		u = uint64(n.i)
	}
	return binary.LittleEndian.AppendUint64(nil, u)[:d.Size()]
}

// each applies f to the elements of equally long operands. Complex types pass as pairs of reals.
func each(d colligo.DType, f func(d colligo.DType, in ...[]byte) []byte, operands ...[]byte) (out []byte) {
	d = d.Real()
	for i := 0; i < len(operands[0]); i += d.Size() {
		in := make([][]byte, len(operands))
		for j, o := range operands {
			in[j] = o[i : i+d.Size()]
		}
		out = append(out, f(d, in...)...)
	}
	return out
}

// reduced is a op b.
func reduced(d colligo.DType, k colligo.OpKind, a, b []byte) []byte {
	return each(d, func(d colligo.DType, in ...[]byte) []byte {
		x, y := read(d, in[0]), read(d, in[1])
		switch {
		case d == colligo.Bool:
			return []byte{reducedBool(k, in[0][0] != 0, in[1][0] != 0)}
		case k == colligo.KindMin || k == colligo.KindMax:
			return selected(d, x, y, k == colligo.KindMin)
		}
		return write(d, arithmetic(k, x, y))
	}, a, b)
}

// arithmetic computes in all three kinds of number at once. Sums and products of two float32s in float64, rounded to
// float32, are those in float32.
func arithmetic(k colligo.OpKind, x, y number) number {
	switch k {
	case colligo.KindProd:
		return number{x.i * y.i, x.u * y.u, x.f * y.f}
	case colligo.KindBAnd:
		return number{i: x.i & y.i, u: x.u & y.u}
	case colligo.KindBOr:
		return number{i: x.i | y.i, u: x.u | y.u}
	case colligo.KindBXor:
		return number{i: x.i ^ y.i, u: x.u ^ y.u}
	}
	return number{x.i + y.i, x.u + y.u, x.f + y.f}
}

func reducedBool(k colligo.OpKind, x, y bool) byte {
	r := x || y
	switch k {
	case colligo.KindProd, colligo.KindMin, colligo.KindBAnd:
		r = x && y
	case colligo.KindBXor:
		r = x != y
	}
	if r {
		return 1
	}
	return 0
}

// selected is the smaller of x and y if least is set, else the greater.
func selected(d colligo.DType, x, y number, least bool) []byte {
	if d.Float() && (math.IsNaN(x.f) || math.IsNaN(y.f)) {
		return canonicalNaN(d)
	}
	below := x.u < y.u
	switch {
	case d.Float():
		below = x.f < y.f || x.f == y.f && math.Signbit(x.f)
	case d.String()[0] == 'i':
		below = x.i < y.i
	}
	if below == least {
		return write(d, x)
	}
	return write(d, y)
}

func canonicalNaN(d colligo.DType) []byte {
	nan := map[colligo.DType]uint64{colligo.Float16: 0x7e00, colligo.BFloat16: 0x7fc0, colligo.Float32: 0x7fc00000,
		colligo.Float64: 0x7ff8000000000000, colligo.Float8E4M3FN: 0x7f, colligo.Float8E5M2: 0x7e}[d]
	return binary.LittleEndian.AppendUint64(nil, nan)[:d.Size()]
}

// finished is what Finish makes of src.
func finished(d colligo.DType, k colligo.OpKind, src []byte, ranks int) []byte {
	if k != colligo.KindAvg || d.Float() || d.Complex() {
		return src
	}
	return each(d, func(d colligo.DType, in ...[]byte) []byte {
		x := read(d, in[0])
		return write(d, number{i: x.i / int64(ranks), u: x.u / uint64(ranks)})
	}, src)
}

// scaled is src times factor in the element type.
func scaled(d colligo.DType, src []byte, factor float64) []byte {
	return each(d, func(d colligo.DType, in ...[]byte) []byte {
		f := read(d, write(d, number{f: factor})).f
		return write(d, number{f: read(d, in[0]).f * f})
	}, src)
}

// same reports whether two results are the same bits, or both NaN in elements where sloppy is set.
func same(d colligo.DType, got, want []byte, sloppy bool) bool {
	if slices.Equal(got, want) {
		return true
	}
	if !sloppy || len(got) != len(want) {
		return false
	}
	d = d.Real()
	for i := 0; i < len(got); i += d.Size() {
		g, w := got[i:i+d.Size()], want[i:i+d.Size()]
		if !slices.Equal(g, w) && !(math.IsNaN(read(d, g).f) && math.IsNaN(read(d, w).f)) {
			return false
		}
	}
	return true
}
