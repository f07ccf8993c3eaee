package main

// floatOrder is the minimum or the maximum of floats. The instruction returns its second source where both are zero or one
// is NaN. So both orders are taken: their "or" is the lesser zero, their "and" the greater. NaNs become the quiet one.
func (i isa) floatOrder(suffix, lane, name, zeros string) func(g *gen, acc []int, m operand) {
	quiet := uint64(0x7fc00000)
	if lane == "Q" {
		quiet = 0x7ff8000000000000
	}
	return func(g *gen, acc []int, m operand) {
		a, b, r, s := acc[0], g.temp(0), g.temp(1), g.temp(2)
		nan := g.number(lane, quiet)
		g.i(g.move(), m.plus(0), b)
		g.i(name+suffix, b, a, r)
		g.i(name+suffix, a, b, s)
		g.i(zeros+suffix, s, r, r)
		if g.masks {
			g.i("VCMP"+suffix, "$3", b, a, "K2")
			g.i(g.move(), r, a)
			g.i("VMOVA"+suffix, nan, "K2", a)
			return
		}
		g.i("VCMP"+suffix, "$3", b, a, s)
		g.i("VBLENDV"+suffix, s, nan, r, a)
	}
}

// A half is float16 or bfloat16. Sums and products are computed in float32 and rounded once.
type half struct {
	isa
	name     string
	top, nan uint64 // patterns of infinity and of the quiet NaN
	whole    body   // what fits a vector: bytes, registers, rounding
	widen    func(g *gen, to []int, m operand)
}

func (i isa) halves() []half {
	f := half{isa: i, name: "Float16", top: 0x7c00, nan: 0x7e00, widen: widenFloat16,
		whole: body{bytes: 32, accs: 64 / i.width, finish: narrowFloat16}}
	b := half{isa: i, name: "BFloat16", top: 0x7f80, nan: 0x7fc0, widen: widenBFloat16,
		whole: body{bytes: i.width, accs: 2, finish: narrowBFloat16}}
	return []half{f, b}
}

// arithmetic is a sum or a product, which a fold may divide before it is rounded.
func (h half) arithmetic(name string) body {
	b := h.whole
	b.load = h.widen
	b.op = func(g *gen, acc []int, m operand) {
		t := []int{g.temp(0), g.temp(1)}[:len(acc)]
		h.widen(g, t, m)
		for n := range acc {
			g.i(name, t[n], acc[n], acc[n])
		}
	}
	b.divide = func(g *gen, acc []int) {
		for _, a := range acc {
			g.i("VDIVPS", g.input("D", "by+48"), a, a)
		}
	}
	return b
}

// byNumber combines each element with the parameter x, a float32.
func (h half) byNumber(name string) body {
	b := h.whole
	b.load = h.widen
	b.inputs = func(g *gen) { g.input("D", "x+24") }
	b.finish = func(g *gen, acc []int) {
		for _, a := range acc {
			g.i(name, g.input("D", "x+24"), a, a)
		}
		h.whole.finish(g, acc)
	}
	return b
}

// widenFloat16 fills one register, or two from the halves of a vector.
func widenFloat16(g *gen, to []int, m operand) {
	for n, r := range to {
		g.i("VCVTPH2PS", m.plus(16*n), r)
	}
}

// narrowFloat16 rounds to nearest, ties to even.
func narrowFloat16(g *gen, acc []int) {
	a := acc[0]
	if len(acc) == 1 {
		g.i("VCVTPS2PH", "$0", a, g.y(a))
	} else {
		g.i("VCVTPS2PH", "$0", a, g.x(a))
		g.i("VCVTPS2PH", "$0", acc[1], g.x(acc[1]))
		g.i("VINSERTI128", "$1", g.x(acc[1]), g.y(a), g.y(a))
	}
	g.quiet(a, 0x7e00)
}

// quiet makes every NaN the quiet one of its sign, where patterns lie in lanes of 16 bits. NaNs are above nan in their half
// of the patterns: of positive numbers as signed, of negative ones as unsigned integers.
func (g *gen) quiet(a int, nan uint64) {
	g.i("VPMINSW", g.half(g.number("W", nan)), g.half(a), g.half(a))
	g.i("VPMINUW", g.half(g.number("W", nan|0x8000)), g.half(a), g.half(a))
}

// widenBFloat16 has the even elements in one register, the odd ones in the other.
func widenBFloat16(g *gen, to []int, m operand) {
	g.i(g.move(), m.plus(0), to[1])
	g.i("VPSLLD", "$16", to[1], to[0])
	g.i(g.logic("VPAND"), g.number("D", 0xffff0000), to[1], to[1])
}

// narrowBFloat16 rounds to nearest, ties to even: what is added carries into the upper half if the lower half says so. A NaN
// comes from bfloat16, so its lower half is 0 and nothing carries.
func narrowBFloat16(g *gen, acc []int) {
	one, least := g.number("D", 1), g.number("D", 0x7fff)
	for n, a := range acc {
		t := g.temp(n)
		g.i("VPSRLD", "$16", a, t)
		g.i(g.logic("VPAND"), one, t, t)
		g.i("VPADDD", least, a, a)
		g.i("VPADDD", t, a, a)
	}
	even, odd := acc[0], acc[1]
	g.i("VPSRLD", "$16", even, even)
	if g.masks {
		g.i("VPTERNLOGD", "$0xF8", g.number("D", 0xffff0000), odd, even) // even | odd & mask
	} else {
		g.i("VPBLENDW", "$0xAA", odd, even, even)
	}
	g.quiet(even, 0x7fc0)
}

// patternOrder is the minimum or the maximum of patterns, as order.go has it. Vectors hold keys, which ascend as the values do:
// a pattern whose magnitude is inverted if its sign is set. The key of a key is the pattern.
func (i isa) patternOrder(h half, least bool) body {
	b := i.plain(func(g *gen, acc []int, m operand) {
		a, k, low, high := acc[0], g.temp(0), g.temp(1), g.temp(2)
		top, bottom, nan := g.number("W", h.top), g.number("W", ^h.top&0xffff), g.number("W", h.nan)
		g.i(g.move(), m.plus(0), k)
		g.key(k, low)
		g.i("VPMINSW", k, a, low)
		g.i("VPMAXSW", k, a, high)
		result := low
		if !least {
			result = high
		}
		if g.masks {
			g.i("VPCMPGTW", top, high, "K2")
			g.i("VPCMPGTW", low, bottom, "K3")
			g.i("KORD", "K2", "K3", "K2")
			g.i(g.move(), result, a)
			g.i("VMOVDQU16", nan, "K2", a)
			return
		}
		g.i(g.move(), result, a)
		g.i("VPCMPGTW", top, high, high)
		g.i("VPCMPGTW", low, bottom, low)
		g.i("VPOR", low, high, high)
		g.i("VPBLENDVB", high, nan, a, a)
	})
	load := b.load
	b.load = func(g *gen, acc []int, m operand) {
		load(g, acc, m)
		g.key(acc[0], g.temp(0))
	}
	b.finish = func(g *gen, acc []int) { g.key(acc[0], g.temp(0)) }
	return b
}

// key inverts the magnitudes of negative numbers. It uses register t.
func (g *gen) key(a, t int) {
	g.i("VPSRAW", "$15", a, t)
	g.i("VPSRLW", "$1", t, t)
	g.i(g.logic("VPXOR"), t, a, a)
}
