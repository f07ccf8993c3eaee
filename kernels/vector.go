package kernels

import (
	"math"
	"slices"
	"unsafe"

	"github.com/colligo-go/colligo"
)

//go:generate go run -C _gen ./vector

// An instructionSet has vector loops for some element types. The loops take operands at any address.
type instructionSet struct {
	name  string
	least int // bytes that a call must have
	loops func(d colligo.DType) vectorLoops
}

// vectorLoops are an instruction set's loops over one element type; nil where there is none.
type vectorLoops struct {
	sum, prod, min, max, band, bor, bxor binaryLoop
	divide, scale                        unaryLoop
}

// A binaryLoop reduces n bytes, two operands or k of them. If stream is not 0, stores go past the caches, and dst must be a
// multiple of streamAlign. A fold takes the operands from byte from on. It divides by the float32 whose bits are by, unless
// that is 0; only sums of float16 and bfloat16 heed it.
type binaryLoop struct {
	reduce func(dst, a, b *byte, n, stream int)
	fold   func(dst *byte, src *[]byte, k, from, n, stream int, by uint64)
}

// A unaryLoop changes n bytes by the number or numbers that x and y stand for.
type unaryLoop func(dst, src *byte, n int, x, y uint64)

const (
	// piece bounds the bytes of one call, since the scheduler cannot stop a goroutine in assembly.
	piece = 1 << 18
	// foldPiece is as much as stays in the first level cache until Finish comes over it.
	foldPiece = 1 << 14
	// streamBytes is from how many bytes on a result is not expected in a cache any more when somebody reads it.
	streamBytes = 4 << 20
	// streamAlign is the address multiple that stores past the caches need.
	streamAlign = 64
)

// vectorReduce does what Reduce does, with a vector loop.
func (k *Kernel) vectorReduce(dst, a, b []byte) {
	raceReduce(dst, a, b)
	stream := 0
	if len(dst) >= streamBytes && address(dst) != address(a) && address(dst) != address(b) {
		if head, ok := k.streamHead(dst); ok {
			k.Reduce(dst[:head], a[:head], b[:head])
			dst, a, b, stream = dst[head:], a[head:], b[head:], 1
		}
	}
	for len(dst) > 0 {
		n := k.next(len(dst), piece)
		k.vector.reduce(unsafe.SliceData(dst), unsafe.SliceData(a), unsafe.SliceData(b), n, stream)
		dst, a, b = dst[n:], a[n:], b[n:]
	}
}

// vectorFold does what Fold does, with a vector loop and for at least as many bytes as that takes. A result whose elements are
// divided in another pass stays in the caches.
func (k *Kernel) vectorFold(dst []byte, src [][]byte, divisor int) {
	raceReduce(dst, src...)
	by, from, stream := uint64(0), 0, 0
	if k.wide() && (divisor > 1 || len(src) == 1) { // arithmetic makes even a single operand's NaNs quiet
		by = uint64(math.Float32bits(float32(max(divisor, 1))))
		divisor = 1
	}
	if len(dst) >= streamBytes && divisor <= 1 && !slices.ContainsFunc(src, func(s []byte) bool { return address(s) == address(dst) }) {
		if head, ok := k.streamHead(dst); ok && head > 0 {
			n := head + streamAlign // enough for a call; what follows is still a multiple
			k.vector.fold(&dst[0], unsafe.SliceData(src), len(src), 0, n, 0, by)
			from, stream = n, 1
		} else if ok {
			stream = 1
		}
	}
	for from < len(dst) {
		n := k.next(len(dst)-from, foldPiece)
		k.vector.fold(&dst[from], unsafe.SliceData(src), len(src), from, n, stream, by)
		if divisor > 1 {
			k.finish.Finish(dst[from:from+n], dst[from:from+n], divisor)
		}
		from += n
	}
}

// streamHead returns how many bytes of a result lie before the first address that a loop past the caches may begin at. It
// reports false if no element begins at such an address. Large results go past the caches if they are none of the operands.
// They need not be read first then, and whatever the caches hold stays in them.
func (k *Kernel) streamHead(dst []byte) (head int, ok bool) {
	head = int(-address(dst) & (streamAlign - 1))
	return head, head%k.size == 0
}

// next is how many of the bytes left the next call gets. No call gets fewer than the loop takes.
func (k *Kernel) next(left, most int) int {
	if left < most+k.least {
		return left
	}
	return most
}

// vectorDivide divides with a vector loop and reports whether there is one that can.
func (k *Kernel) vectorDivide(dst, src []byte, by int) bool {
	if k.divides == nil || len(dst) < k.least {
		return false
	}
	x, y := uint64(0), uint64(0)
	if k.scales != nil && by&(by-1) == 0 && by <= 1<<24 { // the reciprocal is exact in every type, and multiplying is faster
		return k.vectorScale(dst, src, 1/float64(by))
	}
	switch k.real {
	case colligo.Float64:
		x = math.Float64bits(float64(by))
	case colligo.Int64:
		reciprocal, shift := reciprocal64(uint64(by))
		x, y = reciprocal, uint64(shift)
	case colligo.Int32:
		if by > math.MaxInt32 {
			return false
		}
		x, y = reciprocal32(uint32(by))
	case colligo.Int8, colligo.Uint8:
		if by > 1<<8 {
			return false
		}
		x = reciprocal8(uint32(by))
	default:
		x = uint64(math.Float32bits(float32(by)))
	}
	k.vectorUnary(k.divides, dst, src, x, y)
	return true
}

// vectorScale scales with a vector loop and reports whether there is one.
func (k *Kernel) vectorScale(dst, src []byte, factor float64) bool {
	if k.scales == nil || len(dst) < k.least {
		return false
	}
	x := uint64(math.Float32bits(float32(factor)))
	switch k.real {
	case colligo.Float64:
		x = math.Float64bits(factor)
	case colligo.Float16:
		x = uint64(math.Float32bits(colligo.Float16ToFloat32(colligo.Float16FromFloat32(float32(factor)))))
	case colligo.BFloat16:
		x = uint64(math.Float32bits(colligo.BFloat16ToFloat32(colligo.BFloat16FromFloat32(float32(factor)))))
	}
	k.vectorUnary(k.scales, dst, src, x, 0)
	return true
}

func (k *Kernel) vectorUnary(loop unaryLoop, dst, src []byte, x, y uint64) {
	raceReduce(dst, src)
	for len(dst) > 0 {
		n := k.next(len(dst), piece)
		loop(unsafe.SliceData(dst), unsafe.SliceData(src), n, x, y)
		dst, src = dst[n:], src[n:]
	}
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
