package main

import (
	"math/bits"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
)

// pattern says which number every element of every rank's input is, and what their reduction is. The numbers are whole
// and follow from rank and position, so an element of another rank or place shows. They are small enough for every
// partial result of the reduction, in whatever order, to be exact in the element type.
type pattern struct {
	ranks  int
	kind   colligo.OpKind
	top    uint64 // largest number used, partial results included
	room   uint64 // largest number of one rank where all ranks have one
	sparse bool   // there is no such room: in each place one rank, the owner, has a number, and the others have rest
	rest   float64
	weight float64 // of an average of floats: what each input is multiplied by, rounded to the element type; else 0
}

// exact is, for each element type, a number up to which all whole numbers are exact (also in a float64).
func exact(d colligo.DType) uint64 {
	switch d {
	case colligo.Bool:
		return 1
	case colligo.Float8E5M2:
		return 1 << 3
	case colligo.Float8E4M3FN:
		return 1 << 4
	case colligo.BFloat16:
		return 1 << 8
	case colligo.Float16:
		return 1 << 11
	case colligo.Float32, colligo.Complex64:
		return 1 << 24
	case colligo.Float64, colligo.Complex128, colligo.Int64, colligo.Uint64:
		return 1<<53 - 1
	case colligo.Uint8, colligo.Uint32:
		return 1<<(8*d.Size()) - 1
	}
	return 1<<(8*d.Size()-1) - 1
}

// newPattern returns the pattern of a case. Where elements are only moved, every rank has the whole range.
func newPattern(c testCase, ranks int) pattern {
	p := pattern{ranks: ranks, top: exact(c.dtype)}
	p.room = p.top
	if !c.reduces {
		return p
	}
	var err error
	if p.kind, _, err = c.op.Kind().Check(c.dtype); err != nil {
		panic("bench: " + err.Error()) // options.cases leaves it out
	}
	if c.dtype == colligo.Bool {
		p.kind = bitwise(p.kind)
	}
	switch p.kind {
	case colligo.KindPremulSum:
		p.top /= premulFactor
		p.room = p.top / uint64(ranks)
	case colligo.KindSum, colligo.KindAvg:
		p.room /= uint64(ranks)
		if p.weight = weight(c.dtype, p.kind, ranks); p.weight != 0 && ranks&(ranks-1) != 0 {
			p.room = 0 // the order of numbers that are weighted so would show
		}
	case colligo.KindProd:
		p.room, p.rest = 0, 1
	}
	p.sparse = p.room == 0
	return p
}

// bitwise returns what a reduction does to bits.
func bitwise(k colligo.OpKind) colligo.OpKind {
	switch k {
	case colligo.KindProd, colligo.KindMin:
		return colligo.KindBAnd
	case colligo.KindMax:
		return colligo.KindBOr
	}
	return k
}

// value returns element i of a rank's input.
func (p pattern) value(rank, i int) float64 {
	if !p.sparse {
		return float64(p.dense(rank, i))
	}
	if rank != p.owner(i) {
		return p.rest
	}
	return 1 + float64(below(p.top, mix(uint64(rank+1), uint64(i))))
}

// dense returns the number of an element where all ranks have numbers. One rank decides an "and" or an "or" with one bit.
// The more ranks there are, the rarer must such bits be, a few ranks' in each place, or all results would be equal.
func (p pattern) dense(rank, i int) uint64 {
	number := func(turn int) uint64 { return below(p.room+1, mix(uint64(turn*p.ranks+rank+1), uint64(i))) }
	v := number(0)
	for turn := 1; p.ranks>>turn > 1; turn++ {
		switch p.kind {
		case colligo.KindBAnd:
			v |= number(turn)
		case colligo.KindBOr:
			v &= number(turn)
		default:
			return v
		}
	}
	return v
}

func (p pattern) owner(i int) int { return int(below(uint64(p.ranks), mix(0, uint64(i)))) }

// reduced returns element i of the reduction of all inputs.
func (p pattern) reduced(i int) float64 {
	var r float64
	if p.sparse {
		r = p.value(p.owner(i), i)
	} else {
		r = p.folded(i)
	}
	switch p.kind {
	case colligo.KindAvg:
		return p.averaged(r)
	case colligo.KindPremulSum:
		r *= premulFactor
	}
	return r
}

// averaged returns the average that has a sum, or that has one number and else zeros.
func (p pattern) averaged(sum float64) float64 {
	if p.weight == 0 {
		return sum / float64(p.ranks)
	}
	return sum * p.weight
}

// weight returns what each input of an average is multiplied by, 0 if it is of integers, or a sum.
func weight(d colligo.DType, k colligo.OpKind, ranks int) float64 {
	d = d.Real()
	if k != colligo.KindAvg || !d.Float() {
		return 0
	}
	one := colligo.Bytes(make([]byte, d.Size()), d)
	fill(one, func(int) float64 { return 1 })
	kernel, err := kernels.Lookup(d, k)
	if err != nil {
		panic("bench: " + err.Error())
	}
	kernel.Scale(one.CPUBytes(), one.CPUBytes(), kernel.Weight(ranks))
	w, err := kernels.Scalar(one)
	if err != nil {
		panic("bench: " + err.Error())
	}
	return w
}

func (p pattern) folded(i int) float64 {
	r := p.value(0, i)
	for rank := 1; rank < p.ranks; rank++ {
		v := p.value(rank, i)
		switch p.kind {
		case colligo.KindMin:
			r = min(r, v)
		case colligo.KindMax:
			r = max(r, v)
		case colligo.KindBAnd:
			r = float64(uint64(r) & uint64(v))
		case colligo.KindBOr:
			r = float64(uint64(r) | uint64(v))
		case colligo.KindBXor:
			r = float64(uint64(r) ^ uint64(v))
		default:
			r += v
		}
	}
	return r
}

// mix scatters two numbers over 64 bits.
func mix(a, b uint64) uint64 {
	x := a*0xd1342543de82ef95 + b*0x9e3779b97f4a7c15
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return x ^ x>>32
}

// below maps 64 even bits to the numbers below n.
func below(n, x uint64) uint64 {
	high, _ := bits.Mul64(n, x)
	return high
}
