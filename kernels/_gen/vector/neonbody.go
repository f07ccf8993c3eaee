package main

// armLoad fills the first register.
func armLoad(g *arm, acc []int, m string) { g.i("FMOVQ %s, F%d", m, acc[0]) }

// armOn is a body of one register whose operation is on registers.
func armOn(op func(g *arm, a, b int)) armBody {
	return armBody{accs: 1, load: armLoad, op: func(g *arm, acc []int, m string) {
		b := g.temp(0)
		g.i("FMOVQ %s, F%d", m, b)
		op(g, acc[0], b)
	}}
}

// armPlain is one instruction. The operand that came first is its first source.
func armPlain(name string) armBody { return armOn(func(g *arm, a, b int) { g.w(name, a, a, b) }) }

// armTruth reduces bytes to 0 or 1: the least of a byte and 1 is its truth.
func armTruth(name string) armBody {
	b := armOn(func(g *arm, a, b int) {
		g.w("umin 16b", b, b, g.number("B16", 1))
		g.w(name, a, a, b)
	})
	b.load = func(g *arm, acc []int, m string) {
		armLoad(g, acc, m)
		g.w("umin 16b", acc[0], acc[0], g.number("B16", 1))
	}
	return b
}

// armLongOrder is the minimum or the maximum of integers of 64 bits: a comparison chooses.
func armLongOrder(unsigned, least bool) armBody {
	compare := "cmgt 2d"
	if unsigned {
		compare = "cmhi 2d"
	}
	return armOn(func(g *arm, a, b int) {
		above := g.temp(1)
		if least {
			g.w(compare, above, a, b)
		} else {
			g.w(compare, above, b, a)
		}
		g.w("bit 16b", a, b, above)
	})
}

// armFloatOrder is the minimum or the maximum of floats. The instruction holds -0 below +0. NaNs become the quiet one.
func armFloatOrder(name, lanes, of string) armBody {
	quiet := uint64(0x7fc00000)
	if of == "D2" {
		quiet = 0x7ff8000000000000
	}
	return armOn(func(g *arm, a, b int) {
		number := g.temp(1)
		g.w(name+lanes, a, a, b)
		g.w("fcmeq "+lanes, number, a, a)
		g.w("bif 16b", a, g.number(of, quiet), number)
	})
}

// armByNumber combines each element with the parameter x.
func armByNumber(name, of string) armBody {
	return armBody{accs: 1, load: armLoad,
		inputs: func(g *arm) { g.input(of, "x+24") },
		finish: func(g *arm, acc []int) { g.w(name, acc[0], acc[0], g.input(of, "x+24")) }}
}

// armDivideWords divides int32 as divideWords does on amd64. The shift is to the left by a negative number.
func armDivideWords() armBody {
	return armBody{accs: 1, load: armLoad,
		inputs: func(g *arm) {
			g.input("S4", "x+24")
			r := g.input("D2", "y+32")
			g.head.WriteString(word("neg 2d", r, r))
		},
		finish: func(g *arm, acc []int) {
			a, sign, low, high := acc[0], g.temp(0), g.temp(1), g.temp(2)
			by, shift := g.input("S4", "x+24"), g.input("D2", "y+32")
			g.w("sshr31 4s", sign, a)
			g.w("abs 4s", a, a)
			g.w("umull 2d", low, a, by)
			g.w("umull2 2d", high, a, by)
			g.w("ushl 2d", low, low, shift)
			g.w("ushl 2d", high, high, shift)
			g.w("uzp1 4s", a, low, high)
			g.w("eor 16b", a, a, sign)
			g.w("sub 4s", a, a, sign)
		}}
}

// armDivideBytes divides bytes by products of 16 bits with the reciprocal times 2^16, whose upper halves are the quotients.
func armDivideBytes(signed bool) armBody {
	return armBody{accs: 1, load: armLoad,
		inputs: func(g *arm) { g.input("H8", "x+24") },
		finish: func(g *arm, acc []int) {
			a, sign, by := acc[0], g.temp(0), g.input("H8", "x+24")
			if signed {
				g.w("sshr7 16b", sign, a)
				g.w("abs 16b", a, a)
			}
			low, high, p, q := g.temp(1), g.temp(2), g.temp(3), g.temp(4)
			g.w("ushll 8h", low, a)
			g.w("ushll2 8h", high, a)
			for _, r := range []int{low, high} {
				g.w("umull 4s", p, r, by)
				g.w("umull2 4s", q, r, by)
				g.w("uzp2 8h", r, p, q)
			}
			g.w("uzp1 16b", a, low, high)
			if signed {
				g.w("eor 16b", a, a, sign)
				g.w("sub 16b", a, a, sign)
			}
		}}
}

// armLongProduct puts the low 64 bits of a product together from products of 32 bits.
func armLongProduct() armBody {
	return armOn(func(g *arm, a, b int) {
		cross, p, q := g.temp(1), g.temp(2), g.temp(3)
		g.w("rev64 4s", cross, b)
		g.w("mul 4s", cross, cross, a)
		g.w("uaddlp 2d", cross, cross)
		g.w("uzp1 4s", p, a, a)
		g.w("uzp1 4s", q, b, b)
		g.w("shl32 2d", a, cross)
		g.w("umlal 2d", a, p, q)
	})
}

// armDivideLongs divides int64 as divideLongs does on amd64.
func armDivideLongs() armBody {
	return armBody{accs: 1, load: armLoad,
		inputs: func(g *arm) {
			low := g.input("D2", "x+24")
			high := g.constant("high", "", "D2")
			g.head.WriteString(word("uzp2 4s", high, low, low))
			g.head.WriteString(word("uzp1 4s", low, low, low))
			r := g.input("D2", "y+32")
			g.head.WriteString(word("neg 2d", r, r))
		},
		finish: func(g *arm, acc []int) {
			a, sign, high, p, q := acc[0], g.temp(0), g.temp(1), g.temp(2), g.temp(3)
			ml, mh, shift := g.input("D2", "x+24"), g.input("D2", "high"), g.input("D2", "y+32")
			g.w("sshr63 2d", sign, a)
			g.w("eor 16b", a, a, sign)
			g.w("sub 2d", a, a, sign)
			g.w("uzp2 4s", high, a, a)
			g.w("uzp1 4s", a, a, a)
			g.w("umull 2d", p, a, ml)
			g.w("ushr32 2d", p, p)
			g.w("umull 2d", q, high, ml)
			g.w("add 2d", q, q, p)
			g.w("and 16b", p, q, g.number("D2", 0xffffffff))
			g.w("ushr32 2d", q, q)
			g.w("umull 2d", a, a, mh)
			g.w("add 2d", a, a, p)
			g.w("ushr32 2d", a, a)
			g.w("umull 2d", high, high, mh)
			g.w("add 2d", a, a, q)
			g.w("add 2d", a, a, high)
			g.w("ushl 2d", a, a, shift)
			g.w("eor 16b", a, a, sign)
			g.w("sub 2d", a, a, sign)
		}}
}

// An armHalf is float16 or bfloat16. Sums and products are computed in float32 and rounded once.
type armHalf struct {
	name     string
	top, nan uint64
	widen    func(g *arm, to []int, m string)
	settle   func(g *arm, r int) // readies a second operand, so that of two NaNs the first survives
	narrow   func(g *arm, acc []int)
}

func armHalves() []armHalf {
	return []armHalf{
		{name: "Float16", top: 0x7c00, nan: 0x7e00, widen: armWidenFloat16, narrow: armNarrowFloat16, settle: func(*arm, int) {}},
		{name: "BFloat16", top: 0x7f80, nan: 0x7fc0, widen: armWidenBFloat16, narrow: armNarrowBFloat16, settle: armQuiet},
	}
}

// armQuiet makes NaNs quiet, of which the instructions would prefer a signalling one. Conversions from float16 do it by
// themselves.
func armQuiet(g *arm, r int) { g.w("fmul 4s", r, r, g.number("S4", 0x3f800000)) }

func (h armHalf) arithmetic(name string) armBody {
	return armBody{accs: 2, load: h.widen, finish: h.narrow,
		op: func(g *arm, acc []int, m string) {
			t := []int{g.temp(0), g.temp(1)}
			h.widen(g, t, m)
			for n := range acc {
				h.settle(g, t[n])
				g.w(name, acc[n], acc[n], t[n])
			}
		},
		divide: func(g *arm, acc []int) {
			for _, a := range acc {
				g.w("fdiv 4s", a, a, g.input("S4", "by+48"))
			}
		}}
}

// byNumber combines each element with the parameter x, a float32 whose NaN is quiet.
func (h armHalf) byNumber(name string) armBody {
	return armBody{accs: 2, load: h.widen,
		inputs: func(g *arm) { h.settle(g, g.input("S4", "x+24")) },
		finish: func(g *arm, acc []int) {
			for _, a := range acc {
				g.w(name, a, a, g.input("S4", "x+24"))
			}
			h.narrow(g, acc)
		}}
}

func armWidenFloat16(g *arm, to []int, m string) {
	g.i("FMOVQ %s, F%d", m, to[0])
	g.w("fcvtl2 4s", to[1], to[0])
	g.w("fcvtl 4s", to[0], to[0])
}

func armNarrowFloat16(g *arm, acc []int) {
	g.w("fcvtn 4h", acc[0], acc[0])
	g.w("fcvtn2 8h", acc[0], acc[1])
	g.quiet(acc[0], 0x7e00)
}

// quiet makes every NaN the quiet one of its sign, as on amd64.
func (g *arm) quiet(a int, nan uint64) {
	g.w("smin 8h", a, a, g.number("H8", nan))
	g.w("umin 8h", a, a, g.number("H8", nan|0x8000))
}

func armWidenBFloat16(g *arm, to []int, m string) {
	g.i("FMOVQ %s, F%d", m, to[1])
	g.w("shl16 4s", to[0], to[1])
	g.w("and 16b", to[1], to[1], g.number("S4", 0xffff0000))
}

func armNarrowBFloat16(g *arm, acc []int) {
	one, least := g.number("S4", 1), g.number("S4", 0x7fff)
	for n, a := range acc {
		t := g.temp(n)
		g.w("ushr16 4s", t, a)
		g.w("and 16b", t, t, one)
		g.w("add 4s", a, a, least)
		g.w("add 4s", a, a, t)
	}
	g.w("sri16 4s", acc[1], acc[0])
	g.i("VMOV V%d.B16, V%d.B16", acc[1], acc[0])
	g.quiet(acc[0], 0x7fc0)
}

// patternOrder is the minimum or the maximum of patterns by keys, as on amd64.
func (h armHalf) patternOrder(least bool) armBody {
	b := armOn(func(g *arm, a, k int) {
		low, high := g.temp(1), g.temp(2)
		top, bottom, nan := g.number("H8", h.top), g.number("H8", ^h.top&0xffff), g.number("H8", h.nan)
		g.key(k, low)
		g.w("smin 8h", low, a, k)
		g.w("smax 8h", high, a, k)
		result := low
		if !least {
			result = high
		}
		g.i("VMOV V%d.B16, V%d.B16", result, a)
		g.w("cmgt 8h", high, high, top)
		g.w("cmgt 8h", low, bottom, low)
		g.w("bit 16b", a, nan, high)
		g.w("bit 16b", a, nan, low)
	})
	b.load = func(g *arm, acc []int, m string) {
		armLoad(g, acc, m)
		g.key(acc[0], g.temp(0))
	}
	b.finish = func(g *arm, acc []int) { g.key(acc[0], g.temp(0)) }
	return b
}

// key inverts the magnitudes of negative numbers. It uses register t.
func (g *arm) key(a, t int) {
	g.w("sshr15 8h", t, a)
	g.w("ushr1 8h", t, t)
	g.w("eor 16b", a, a, t)
}
