package kernels

import (
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo"
)

// A Step is one fold of a larger reduction.
type Step struct {
	Ranks   int  // of an average; at most 1 for a sum
	SumLast bool // the last source is a sum of several ranks, and not scaled; else every source is a rank's input
	Partial bool // the result is not yet the sum of all ranks
}

// Fold is the method of that name of the kernel that Lookup finds. It returns the error of OpKind.Check.
func Fold(d colligo.DType, k colligo.OpKind, dst []byte, src [][]byte, ranks int) error {
	return FoldStep(d, k, dst, src, Step{Ranks: ranks})
}

// FoldStep folds one step of a reduction whose result grows from rank to rank, as in a ring. It returns the error of
// OpKind.Check.
func FoldStep(d colligo.DType, k colligo.OpKind, dst []byte, src [][]byte, s Step) error {
	kernel, err := Lookup(d, k)
	if err != nil {
		return err
	}
	if s.Ranks > 1 && kernel.sums() {
		if kernel, err = Lookup(d, colligo.KindAvg); err != nil {
			return err
		}
	}
	kernel.foldStep(dst, src, s)
	return nil
}

// Fold reduces any number of sources, at least one, into dst in their order and in one pass, as the GPU kernels do. Each source
// is the input of one rank. Sums and products of float16, bfloat16 and float8 are kept in float32 and rounded once, at the end: a
// scaled source is not rounded either. Only thus does it differ from a chain of Scale, Reduce and Finish. Above 1, ranks makes
// sums averages. All slices have one length; dst may be one of the sources, but must not overlap any partly. It panics if elements
// have no average that is wanted.
func (k *Kernel) Fold(dst []byte, src [][]byte, ranks int) {
	if ranks > 1 && k.sums() {
		if k.finish == nil {
			panic(fmt.Sprintf("kernels: fold of %s over %d ranks", k.name, ranks))
		}
		k = k.finish
	}
	k.foldStep(dst, src, Step{Ranks: ranks})
}

// foldStep folds by the loops that are fastest for the elements. K is an average if there is more than one rank of a sum.
func (k *Kernel) foldStep(dst []byte, src [][]byte, s Step) {
	for _, x := range src {
		k.check("fold", dst, x)
	}
	if s.Ranks < 1 || !k.sums() {
		s.Ranks = 1
	}
	divisor := s.Ranks
	if k.weighs || s.Partial {
		divisor = 1
	}
	switch {
	case k.Weight(s.Ranks) == 1 && k.vector.fold != nil && len(dst) >= k.least:
		k.vectorFold(dst, src, divisor)
		return
	case k.wide():
		k.foldWide(dst, src, s)
		return
	}
	acc, scaled := make([]byte, len(dst)), make([]byte, len(dst))
	copy(acc, s.source(k, scaled, src, 0))
	if k.real == colligo.Bool {
		for i, b := range acc {
			acc[i] = min(b, 1)
		}
	}
	for i := range src[1:] {
		k.Reduce(acc, acc, s.source(k, scaled, src, i+1))
	}
	if divisor > 1 {
		k.Finish(acc, acc, divisor)
	}
	copy(dst, acc)
}

// isInput reports whether source i of n is one rank's input.
func (s *Step) isInput(i, n int) bool { return !s.SumLast || i < n-1 }

// source returns source i, in scaled if it is to be scaled.
func (s *Step) source(k *Kernel, scaled []byte, src [][]byte, i int) []byte {
	w := k.Weight(s.Ranks)
	if w == 1 || !s.isInput(i, len(src)) {
		return src[i]
	}
	k.Scale(scaled, src[i], w)
	return scaled
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

// foldWide folds elements that are widened first.
func (k *Kernel) foldWide(dst []byte, src [][]byte, s Step) {
	w := widths[k.real]
	var word [2]byte
	w.narrow(unsafe.Pointer(&word), 0, float32(k.Weight(s.Ranks)))
	weight := w.widen(unsafe.Pointer(&word), 0)
	value := func(i, of int) float32 {
		v := w.widen(unsafe.Pointer(&src[of][0]), i)
		if s.Ranks > 1 && s.isInput(of, len(src)) {
			v *= weight
		}
		return v
	}
	for i := range len(dst) / k.size {
		acc := value(i, 0)
		for of := range src[1:] {
			if v := value(i, of+1); k.kind == colligo.KindProd {
				acc = settled(acc*v, acc, v)
			} else {
				acc = settled(acc+v, acc, v)
			}
		}
		w.narrow(unsafe.Pointer(&dst[0]), i, acc)
	}
}
