package kernels

import (
	"unsafe"

	"github.com/colligo-go/colligo"
)

// Fold reduces any number of sources, at least one, into dst in their order, as the GPU kernels do. Sums and products of
// float16, bfloat16 and float8 are kept in float32 and rounded once, at the end. Only thus does it differ from a chain of
// Reduce, and only for more than two sources or a divisor. A divisor above 1 divides sums, integers toward zero. All slices
// have one length; dst may be one of the sources. It returns the error of OpKind.Check.
func Fold(d colligo.DType, k colligo.OpKind, dst []byte, src [][]byte, divisor int) error {
	kernel, err := Lookup(d, k)
	if err != nil {
		return err
	}
	for _, s := range src {
		kernel.check("fold", dst, s)
	}
	sums := k == colligo.KindSum || k == colligo.KindAvg || k == colligo.KindPremulSum
	if !sums {
		divisor = 1
	}
	if w := widths[d]; w.widen != nil && (sums || k == colligo.KindProd) {
		foldWide(d, k, dst, src, divisor)
		return nil
	}
	acc := make([]byte, len(dst))
	copy(acc, src[0])
	if d == colligo.Bool {
		for i, b := range acc {
			acc[i] = min(b, 1)
		}
	}
	for _, s := range src[1:] {
		kernel.Reduce(acc, acc, s)
	}
	if divisor > 1 {
		finish, err := Lookup(d, colligo.KindAvg)
		if err != nil {
			return err
		}
		finish.Finish(acc, acc, divisor)
	}
	copy(dst, acc)
	return nil
}

// widths has the conversions of the types that are folded in float32.
var widths = [colligo.Complex128 + 1]struct {
	widen  func(p unsafe.Pointer, i int) float32
	narrow func(p unsafe.Pointer, i int, f float32)
}{
	colligo.Float16:      {widen16(colligo.Float16ToFloat32), narrow16(colligo.Float16FromFloat32)},
	colligo.BFloat16:     {widen16(colligo.BFloat16ToFloat32), narrow16(colligo.BFloat16FromFloat32)},
	colligo.Float8E4M3FN: {widen8(colligo.Float8E4M3FNToFloat32), narrow8(colligo.Float8E4M3FNFromFloat32)},
	colligo.Float8E5M2:   {widen8(colligo.Float8E5M2ToFloat32), narrow8(colligo.Float8E5M2FromFloat32)},
}

// The bytes are put together one by one, so that addresses need not be aligned. Machines with CUDA are little-endian.
func widen16(f func(uint16) float32) func(unsafe.Pointer, int) float32 {
	return func(p unsafe.Pointer, i int) float32 {
		b := (*[2]byte)(unsafe.Add(p, 2*i))
		return f(uint16(b[0]) | uint16(b[1])<<8)
	}
}

func narrow16(f func(float32) uint16) func(unsafe.Pointer, int, float32) {
	return func(p unsafe.Pointer, i int, v float32) {
		u := f(v)
		*(*[2]byte)(unsafe.Add(p, 2*i)) = [2]byte{byte(u), byte(u >> 8)}
	}
}

func widen8(f func(uint8) float32) func(unsafe.Pointer, int) float32 {
	return func(p unsafe.Pointer, i int) float32 { return f(*(*uint8)(unsafe.Add(p, i))) }
}

func narrow8(f func(float32) uint8) func(unsafe.Pointer, int, float32) {
	return func(p unsafe.Pointer, i int, v float32) { *(*uint8)(unsafe.Add(p, i)) = f(v) }
}

func foldWide(d colligo.DType, k colligo.OpKind, dst []byte, src [][]byte, divisor int) {
	w := widths[d]
	for i := range len(dst) / d.Size() {
		acc := w.widen(unsafe.Pointer(&src[0][0]), i)
		for _, s := range src[1:] {
			v := w.widen(unsafe.Pointer(&s[0]), i)
			if k == colligo.KindProd {
				acc *= v
			} else {
				acc += v
			}
		}
		if divisor > 1 {
			acc /= float32(divisor)
		}
		w.narrow(unsafe.Pointer(&dst[0]), i, acc)
	}
}
