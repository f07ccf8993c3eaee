package kernels

import (
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo"
)

// Fold is the method of that name of the kernel that Lookup finds. It returns the error of OpKind.Check.
func Fold(d colligo.DType, k colligo.OpKind, dst []byte, src [][]byte, divisor int) error {
	kernel, err := Lookup(d, k)
	if err != nil {
		return err
	}
	if divisor > 1 && kernel.sums() {
		if _, err := Lookup(d, colligo.KindAvg); err != nil {
			return err
		}
	}
	kernel.Fold(dst, src, divisor)
	return nil
}

// Fold reduces any number of sources, at least one, into dst in their order and in one pass, as the GPU kernels do. Sums and
// products of float16, bfloat16 and float8 are kept in float32 and rounded once, at the end. Only thus does it differ from a
// chain of Reduce, and only for more than two sources or a divisor. A divisor above 1 divides sums, integers toward zero. All
// slices have one length; dst may be one of the sources, but must not overlap any partly. It panics if elements that have no
// average are to be divided.
func (k *Kernel) Fold(dst []byte, src [][]byte, divisor int) {
	for _, s := range src {
		k.check("fold", dst, s)
	}
	if !k.sums() {
		divisor = 1
	} else if divisor > 1 && k.finish == nil {
		panic(fmt.Sprintf("kernels: fold of %s over %d ranks", k.name, divisor))
	}
	if k.vector.fold != nil && len(dst) >= k.least {
		k.vectorFold(dst, src, divisor)
		return
	}
	if k.wide() {
		k.foldWide(dst, src, divisor)
		return
	}
	acc := make([]byte, len(dst))
	copy(acc, src[0])
	if k.real == colligo.Bool {
		for i, b := range acc {
			acc[i] = min(b, 1)
		}
	}
	for _, s := range src[1:] {
		k.Reduce(acc, acc, s)
	}
	if divisor > 1 {
		k.finish.Finish(acc, acc, divisor)
	}
	copy(dst, acc)
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

// sums reports whether the kernel reduces to sums.
func (k *Kernel) sums() bool {
	return k.kind == colligo.KindSum || k.kind == colligo.KindAvg || k.kind == colligo.KindPremulSum
}

// wide reports whether a fold keeps its elements in float32.
func (k *Kernel) wide() bool {
	return widths[k.real].widen != nil && k.kind != colligo.KindMin && k.kind != colligo.KindMax
}

func (k *Kernel) foldWide(dst []byte, src [][]byte, divisor int) {
	w := widths[k.real]
	for i := range len(dst) / k.size {
		acc := w.widen(unsafe.Pointer(&src[0][0]), i)
		for _, s := range src[1:] {
			v := w.widen(unsafe.Pointer(&s[0]), i)
			if k.kind == colligo.KindProd {
				acc = settled(acc*v, acc, v)
			} else {
				acc = settled(acc+v, acc, v)
			}
		}
		if divisor > 1 {
			acc /= float32(divisor)
		}
		w.narrow(unsafe.Pointer(&dst[0]), i, acc)
	}
}
