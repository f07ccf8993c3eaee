package main

import (
	"fmt"
	"strings"
)

// The shapes on amd64. Vectors have the body's number of bytes; a block is several of them, whose results are stored
// together. Without masks (AVX2) the last vector is computed first, from the operands' last bytes, and stored last. So it
// may overlap the one before it even where dst is an operand. Callers pass at least one vector's bytes then. With masks
// (AVX-512) the bytes after the last whole vector are loaded and stored under a mask, and any number of bytes will do.

// An isa is AVX2 or AVX-512.
type isa struct {
	name    string
	width   int  // bytes of a register
	masks   bool // byte masks, and registers above 15
	temps   int  // the first temporary register
	last    int  // the register that keeps the last vector
	numbers int  // the first register of constants
}

var (
	avx2   = isa{name: "avx2", width: 32, temps: 4, numbers: 8, last: 15}
	avx512 = isa{name: "avx512", width: 64, masks: true, temps: 8, numbers: 16}
)

// A body is what becomes of one vector.
type body struct {
	bytes  int // of memory
	accs   int // registers that hold it while it is reduced
	load   func(g *gen, acc []int, m operand)
	op     func(g *gen, acc []int, m operand) // nil in a unary function
	divide func(g *gen, acc []int)            // of a fold that rounds once; else nil
	finish func(g *gen, acc []int)            // brings the result to acc[0]; may be nil
	inputs func(g *gen)                       // readies the numbers of a unary function
}

// An operand is memory, or a register that a masked load has filled.
type operand struct {
	addr string // such as (SI)(CX*1)
	disp int
	reg  string
}

// plus is the operand's memory disp bytes further.
func (o operand) plus(disp int) string {
	if o.reg != "" {
		return o.reg
	}
	return fmt.Sprintf("%d%s", o.disp+disp, o.addr)
}

// gen collects one function's text. Constants go before it.
type gen struct {
	isa
	body
	code, head strings.Builder
	constants  map[string]int
}

// i writes one instruction.
func (g *gen) i(name string, operands ...any) {
	text := make([]string, len(operands))
	for i, o := range operands {
		switch o := o.(type) {
		case int:
			text[i] = g.v(o)
		default:
			text[i] = fmt.Sprint(o)
		}
	}
	g.code.WriteString(strings.TrimRight(fmt.Sprintf("\t%-12s %s", name, strings.Join(text, ", ")), " ") + "\n")
}

func (g *gen) label(name string) { fmt.Fprintf(&g.code, "\n%s:\n", name) }

// v names register r in full width; x and y name parts of it.
func (g *gen) v(r int) string {
	if g.masks {
		return fmt.Sprintf("Z%d", r)
	}
	return g.y(r)
}

func (g *gen) x(r int) string { return fmt.Sprintf("X%d", r) }
func (g *gen) y(r int) string { return fmt.Sprintf("Y%d", r) }

// temp is the nth temporary register.
func (g *gen) temp(n int) int { return g.temps + n }

// number returns a register that has value in every lane; lane is B, W, D or Q.
func (g *gen) number(lane string, value uint64) int {
	key := fmt.Sprintf("%s %#x", lane, value)
	if r, ok := g.constants[key]; ok {
		return r
	}
	r := g.fresh(key)
	fmt.Fprintf(&g.head, "\t%-12s $%#x, AX\n%s", "MOVQ", value, g.broadcast(lane, r))
	return r
}

// fresh takes a register for a constant.
func (g *gen) fresh(key string) int {
	r := g.numbers + len(g.constants)
	if !g.masks && r >= g.last || r > 31 {
		panic("too many constants")
	}
	g.constants[key] = r
	return r
}

// broadcast fills the lanes of r from AX.
func (g *gen) broadcast(lane string, r int) string {
	if g.masks {
		return fmt.Sprintf("\t%-12s AX, %s\n", "VPBROADCAST"+lane, g.v(r))
	}
	return fmt.Sprintf("\t%-12s AX, %s\n\t%-12s %s, %s\n", "VMOVQ", g.x(r), "VPBROADCAST"+lane, g.x(r), g.v(r))
}

// input returns a register that has a parameter in every lane.
func (g *gen) input(lane, parameter string) int {
	if r, ok := g.constants[parameter]; ok {
		return r
	}
	r := g.fresh(parameter)
	fmt.Fprintf(&g.head, "\t%-12s %s(FP), AX\n%s", "MOVQ", parameter, g.broadcast(lane, r))
	return r
}

// slots is how many vectors a block has.
func (g *gen) slots() int { return 4 / g.accs }

func (g *gen) acc(slot int) []int {
	all := make([]int, g.accs)
	for i := range all {
		all[i] = slot*g.accs + i
	}
	return all
}

// result names the register that a vector's result is in.
func (g *gen) result(slot int) string { return g.half(g.acc(slot)[0]) }

// half names as much of a register as a vector has bytes of memory.
func (g *gen) half(r int) string {
	if g.bytes < g.width {
		return g.y(r)
	}
	return g.v(r)
}

func (g *gen) move() string {
	if g.masks {
		return "VMOVDQU64"
	}
	return "VMOVDQU"
}

// masked loads an operand under K1 into the last temporary register.
func (g *gen) masked(o operand) operand {
	r := g.half(g.temp(7))
	g.i("VMOVDQU8.Z", o.plus(0), "K1", r)
	return operand{reg: r}
}

// text puts the parts of a function together.
func (g *gen) text() string { return g.head.String() + g.code.String() }

// arguments loads parameters into registers, given as pairs.
func (g *gen) arguments(pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&g.head, "\t%-12s %s(FP), %s\n", "MOVQ", pairs[i], pairs[i+1])
	}
}

// A walk is a shape's way from vector to vector: how it computes some of them, and how it advances.
type walk struct {
	vectors func(slots int, index string, disp int, masked bool) // computes slots vectors at disp bytes behind index
	advance func(bytes int)
}

// loops emits blocks, single vectors and the end. DI is dst, CX the bytes left, R8 whether stores go past the caches.
func (g *gen) loops(w walk) {
	block := g.bytes * g.slots()
	if !g.masks {
		w.vectors(1, "CX", -g.bytes, false)
		g.i("VMOVDQU", g.acc(0)[0], g.last)
		g.i("LEAQ", fmt.Sprintf("%d(DI)(CX*1)", -g.bytes), "R12")
	}
	g.i("CMPQ", "CX", fmt.Sprintf("$%d", block))
	g.i("JLT", "vectors")
	g.label("blocks")
	w.vectors(g.slots(), "", 0, false)
	g.i("TESTQ", "R8", "R8")
	g.i("JNE", "streams")
	g.stores(g.move())
	g.label("stored")
	w.advance(block)
	g.i("CMPQ", "CX", fmt.Sprintf("$%d", block))
	g.i("JGE", "blocks")
	g.label("vectors")
	g.i("CMPQ", "CX", fmt.Sprintf("$%d", g.bytes))
	if g.masks {
		g.i("JLT", "rest")
	} else {
		g.i("JLE", "rest")
	}
	w.vectors(1, "", 0, false)
	g.i(g.move(), g.result(0), "(DI)")
	w.advance(g.bytes)
	g.i("JMP", "vectors")
	g.label("rest")
	g.rest(w)
	g.label("streams")
	g.stores("VMOVNTDQ")
	g.i("JMP", "stored")
}

// stores stores a block's results.
func (g *gen) stores(move string) {
	for s := range g.slots() {
		g.i(move, g.result(s), fmt.Sprintf("%d(DI)", s*g.bytes))
	}
}

// rest ends a function: the last bytes, and the fence that orders stores past the caches before what follows.
func (g *gen) rest(w walk) {
	if g.masks {
		g.i("TESTQ", "CX", "CX")
		g.i("JEQ", "done")
		g.i("MOVQ", "$-1", "AX")
		g.i("BZHIQ", "CX", "AX", "AX")
		g.i("KMOVQ", "AX", "K1")
		w.vectors(1, "", 0, true)
		g.i("VMOVDQU8", g.result(0), "K1", "(DI)")
		g.label("done")
	} else {
		g.i("VMOVDQU", g.last, "(R12)")
	}
	g.i("TESTQ", "R8", "R8")
	g.i("JEQ", "return")
	g.i("SFENCE")
	g.label("return")
	g.i("VZEROUPPER")
	g.i("RET")
}

// at is the memory of a slot, relative to a base register and perhaps an index.
func (g *gen) at(base, index string, disp, slot int, masked bool) operand {
	o := operand{addr: "(" + base + ")", disp: disp + slot*g.bytes}
	if index != "" {
		o.addr += "(" + index + "*1)"
	}
	if masked {
		return g.masked(o)
	}
	return o
}

// ends finishes the vectors of a block.
func (g *gen) ends(slots int) {
	for s := range slots {
		if g.finish != nil {
			g.finish(g, g.acc(s))
		}
	}
}

func newGen(i isa, b body) *gen { return &gen{isa: i, body: b, constants: map[string]int{}} }

// reduceText is the shape of two operands: SI and DX.
func reduceText(i isa, b body) string {
	g := newGen(i, b)
	g.arguments("dst+0", "DI", "a+8", "SI", "b+16", "DX", "n+24", "CX", "stream+32", "R8")
	g.loops(walk{
		vectors: func(slots int, index string, disp int, masked bool) {
			for s := range slots {
				g.load(g, g.acc(s), g.at("SI", index, disp, s, masked))
				g.op(g, g.acc(s), g.at("DX", index, disp, s, masked))
			}
			g.ends(slots)
		},
		advance: func(bytes int) {
			for _, r := range []string{"SI", "DX", "DI"} {
				g.i("ADDQ", fmt.Sprintf("$%d", bytes), r)
			}
			g.i("SUBQ", fmt.Sprintf("$%d", bytes), "CX")
		},
	})
	return g.text()
}

// foldText is the shape of any number of operands: R10 slices from SI on, of which R11 says where the next vector is. The
// register AX has one operand's address, R9 and R13 count the operands. BX is not 0 where sums are divided.
func foldText(i isa, b body) string {
	g := newGen(i, b)
	g.arguments("dst+0", "DI", "src+8", "SI", "k+16", "R10", "from+24", "R11", "n+32", "CX", "stream+40", "R8")
	if b.divide != nil {
		g.arguments("by+48", "BX")
	}
	passes := 0
	g.loops(walk{
		vectors: func(slots int, index string, disp int, masked bool) {
			passes++
			g.operands(slots, index, disp, masked, passes)
			g.divided(slots, passes)
			g.ends(slots)
		},
		advance: func(bytes int) {
			g.i("ADDQ", fmt.Sprintf("$%d", bytes), "R11")
			g.i("ADDQ", fmt.Sprintf("$%d", bytes), "DI")
			g.i("SUBQ", fmt.Sprintf("$%d", bytes), "CX")
		},
	})
	return g.text()
}

// operands reduces the vectors of all operands.
func (g *gen) operands(slots int, index string, disp int, masked bool, pass int) {
	next, over := fmt.Sprintf("next%d", pass), fmt.Sprintf("over%d", pass)
	at := "R11"
	if index != "" {
		g.i("LEAQ", "(R11)("+index+"*1)", "R12")
		at = "R12"
	}
	g.i("MOVQ", "(SI)", "AX")
	for s := range slots {
		g.load(g, g.acc(s), g.at("AX", at, disp, s, masked))
	}
	g.i("MOVQ", "SI", "R9")
	g.i("MOVQ", "R10", "R13")
	g.label(next)
	g.i("DECQ", "R13")
	g.i("JEQ", over)
	g.i("ADDQ", "$24", "R9")
	g.i("MOVQ", "(R9)", "AX")
	for s := range slots {
		g.op(g, g.acc(s), g.at("AX", at, disp, s, masked))
	}
	g.i("JMP", next)
	g.label(over)
}

// divided divides sums before they are rounded, if BX says so.
func (g *gen) divided(slots, pass int) {
	if g.divide == nil {
		return
	}
	whole := fmt.Sprintf("whole%d", pass)
	g.i("TESTQ", "BX", "BX")
	g.i("JEQ", whole)
	for s := range slots {
		g.divide(g, g.acc(s))
	}
	g.label(whole)
}

// unaryText is the shape of one operand, SI.
func unaryText(i isa, b body) string {
	g := newGen(i, b)
	g.arguments("dst+0", "DI", "src+8", "SI", "n+16", "CX")
	fmt.Fprintf(&g.head, "\t%-12s R8, R8\n", "XORQ")
	if b.inputs != nil {
		b.inputs(g)
	}
	g.loops(walk{
		vectors: func(slots int, index string, disp int, masked bool) {
			for s := range slots {
				g.load(g, g.acc(s), g.at("SI", index, disp, s, masked))
			}
			g.ends(slots)
		},
		advance: func(bytes int) {
			for _, r := range []string{"SI", "DI"} {
				g.i("ADDQ", fmt.Sprintf("$%d", bytes), r)
			}
			g.i("SUBQ", fmt.Sprintf("$%d", bytes), "CX")
		},
	})
	return g.text()
}
