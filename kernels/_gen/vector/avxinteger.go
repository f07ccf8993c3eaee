package main

import "fmt"

// integerProduct multiplies lanes, of which the low half remains.
func (i isa) integerProduct(lane string) func(g *gen, acc []int, m operand) {
	switch {
	case lane == "B":
		return byteProduct
	case lane == "Q" && !i.masks:
		return longProduct
	}
	return direct("VPMULL" + lane)
}

// byteProduct multiplies even and odd bytes apart, in lanes of 16 bits.
func byteProduct(g *gen, acc []int, m operand) {
	a, b, odd, other := acc[0], g.temp(0), g.temp(1), g.temp(2)
	low := g.number("W", 0x00ff)
	g.i(g.move(), m.plus(0), b)
	g.i("VPSRLW", "$8", a, odd)
	g.i("VPSRLW", "$8", b, other)
	g.i("VPMULLW", other, odd, odd)
	g.i("VPSLLW", "$8", odd, odd)
	g.i("VPMULLW", b, a, a)
	g.i(g.logic("VPAND"), low, a, a)
	g.i(g.logic("VPOR"), odd, a, a)
}

// longProduct puts the low 64 bits of a product together from three products of 32 bits.
func longProduct(g *gen, acc []int, m operand) {
	a, b, cross, other := acc[0], g.temp(0), g.temp(1), g.temp(2)
	g.i(g.move(), m.plus(0), b)
	g.i("VPSRLQ", "$32", b, cross)
	g.i("VPMULUDQ", a, cross, cross)
	g.i("VPSRLQ", "$32", a, other)
	g.i("VPMULUDQ", b, other, other)
	g.i("VPADDQ", other, cross, cross)
	g.i("VPSLLQ", "$32", cross, cross)
	g.i("VPMULUDQ", b, a, a)
	g.i("VPADDQ", cross, a, a)
}

// integerOrder is the minimum or the maximum of integers. AVX2 has none of 64 bits: a comparison chooses there, of numbers
// whose highest bit is inverted if they are unsigned.
func (i isa) integerOrder(lane string, unsigned, least bool) func(g *gen, acc []int, m operand) {
	name := "VPMAX"
	if least {
		name = "VPMIN"
	}
	if unsigned {
		name += "U" + lane
	} else {
		name += "S" + lane
	}
	if lane != "Q" || i.masks {
		return direct(name)
	}
	return func(g *gen, acc []int, m operand) {
		a, b, above := acc[0], g.temp(0), g.temp(1)
		g.i(g.move(), m.plus(0), b)
		p, q := a, b
		if unsigned {
			top := g.number("Q", 1<<63)
			p, q = g.temp(1), g.temp(2)
			g.i("VPXOR", top, a, p)
			g.i("VPXOR", top, b, q)
		}
		g.i("VPCMPGTQ", q, p, above) // a > b
		if least {
			g.i("VBLENDVPD", above, b, a, a)
		} else {
			g.i("VBLENDVPD", above, a, b, a)
		}
	}
}

// divideWords divides int32 by a number that is not 1, toward zero. The high bits of the magnitude times a reciprocal are the
// quotient, which gets the sign back. The parameters are the reciprocal and the shift, as reciprocal32 in divide.go has them.
func (i isa) divideWords() body {
	b := i.plain(nil)
	b.inputs = func(g *gen) {
		g.input("Q", "x+24")
		g.input("Q", "y+32")
	}
	b.finish = func(g *gen, acc []int) {
		a, even, odd := acc[0], g.temp(0), g.temp(1)
		by, shift := g.input("Q", "x+24"), g.x(g.input("Q", "y+32"))
		g.i("VPABSD", a, even)
		g.i("VPSRLQ", "$32", even, odd)
		g.i("VPMULUDQ", by, even, even)
		g.i("VPSRLQ", shift, even, even)
		g.i("VPMULUDQ", by, odd, odd)
		g.i("VPSRLQ", shift, odd, odd)
		g.i("VPSLLQ", "$32", odd, odd)
		g.i(g.logic("VPOR"), odd, even, even)
		g.signed("D", even, a)
	}
	return b
}

// divideBytes divides even and odd bytes apart, in lanes of 16 bits. The parameter is the reciprocal times 2^16.
func (i isa) divideBytes(signed bool) body {
	b := i.plain(nil)
	b.inputs = func(g *gen) { g.input("W", "x+24") }
	b.finish = func(g *gen, acc []int) {
		a, even, odd := acc[0], g.temp(0), g.temp(1)
		by, low := g.input("W", "x+24"), g.number("W", 0x00ff)
		magnitude := a
		if signed {
			magnitude = g.temp(2)
			g.i("VPABSB", a, magnitude)
		}
		g.i("VPSRLW", "$8", magnitude, odd)
		g.i(g.logic("VPAND"), low, magnitude, even)
		g.i("VPMULHUW", by, even, even)
		g.i("VPMULHUW", by, odd, odd)
		g.i("VPSLLW", "$8", odd, odd)
		g.i(g.logic("VPOR"), odd, even, even)
		if signed {
			g.signed("B", even, a)
			return
		}
		g.i(g.move(), even, a)
	}
	return b
}

// divideLongs divides int64 as divideWords divides int32. The upper half of a product of 64 bits is put together from four
// products of 32 bits. The parameters are the reciprocal and the shift, as reciprocal64 in divide.go has them.
func (i isa) divideLongs() body {
	b := i.plain(nil)
	b.inputs = func(g *gen) {
		low := g.input("Q", "x+24")
		high := g.fresh("high")
		fmt.Fprintf(&g.head, "\t%-12s $32, %s, %s\n", "VPSRLQ", g.v(low), g.v(high))
		g.input("Q", "y+32")
	}
	b.finish = func(g *gen, acc []int) {
		a, sign, high, p, q := acc[0], g.temp(0), g.temp(1), g.temp(2), g.temp(3)
		ml, mh, shift := g.input("Q", "x+24"), g.input("Q", "high"), g.x(g.input("Q", "y+32"))
		if g.masks {
			g.i("VPSRAQ", "$63", a, sign)
		} else {
			g.i("VPCMPGTQ", a, g.number("Q", 0), sign)
		}
		g.i(g.logic("VPXOR"), sign, a, a)
		g.i("VPSUBQ", sign, a, a)
		g.i("VPSRLQ", "$32", a, high)
		g.i("VPMULUDQ", ml, a, p)
		g.i("VPSRLQ", "$32", p, p)
		g.i("VPMULUDQ", ml, high, q)
		g.i("VPADDQ", p, q, q)
		g.i(g.logic("VPAND"), g.number("Q", 0xffffffff), q, p)
		g.i("VPSRLQ", "$32", q, q)
		g.i("VPMULUDQ", mh, a, a)
		g.i("VPADDQ", p, a, a)
		g.i("VPSRLQ", "$32", a, a)
		g.i("VPMULUDQ", mh, high, high)
		g.i("VPADDQ", q, a, a)
		g.i("VPADDQ", high, a, a)
		g.i("VPSRLQ", shift, a, a)
		g.i(g.logic("VPXOR"), sign, a, a)
		g.i("VPSUBQ", sign, a, a)
	}
	return b
}

// signed gives a the magnitude with the sign that a has.
func (g *gen) signed(lane string, magnitude, a int) {
	if !g.masks {
		g.i("VPSIGN"+lane, a, magnitude, a)
		return
	}
	g.i("VPMOV"+lane+"2M", a, "K2")
	g.i("VPSUB"+lane, magnitude, g.number("Q", 0), "K2", magnitude)
	g.i(g.move(), magnitude, a)
}
