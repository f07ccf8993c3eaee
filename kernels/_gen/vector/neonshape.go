package main

import (
	"fmt"
	"strings"
)

// The shapes on arm64. They are those of AVX2 with vectors of 16 bytes: the last vector is computed first and stored last.

// Registers of vectors: those below temps hold results, temps up to 15 are free, last keeps the last vector, and constants
// follow.
const (
	neonTemps   = 4
	neonLast    = 16
	neonNumbers = 17
	neonVector  = 16
)

// An armBody is what becomes of one vector of 16 bytes. Memory operands are texts such as 16(R1).
type armBody struct {
	accs   int
	load   func(g *arm, acc []int, m string)
	op     func(g *arm, acc []int, m string)
	divide func(g *arm, acc []int)
	finish func(g *arm, acc []int)
	inputs func(g *arm)
}

// arm collects one function's text.
type arm struct {
	armBody
	code, head strings.Builder
	constants  map[string]int
}

func newArm(b armBody) *arm { return &arm{armBody: b, constants: map[string]int{}} }

// i writes an instruction that Go's assembler knows, w one that it does not.
func (g *arm) i(format string, a ...any) { fmt.Fprintf(&g.code, "\t"+format+"\n", a...) }

func (g *arm) w(name string, d, n int, m ...int) { g.code.WriteString(word(name, d, n, m...)) }

func (g *arm) label(name string) { fmt.Fprintf(&g.code, "\n%s:\n", name) }

// number returns a register that has value in every lane; lane is B16, H8, S4 or D2.
func (g *arm) number(lane string, value uint64) int {
	return g.constant(fmt.Sprintf("%s %#x", lane, value), fmt.Sprintf("\tMOVD $%#x, R11\n", value), lane)
}

// input returns a register that has a parameter in every lane.
func (g *arm) input(lane, parameter string) int {
	return g.constant(parameter, fmt.Sprintf("\tMOVD %s(FP), R11\n", parameter), lane)
}

func (g *arm) constant(key, load, lane string) int {
	r, ok := g.constants[key]
	if !ok {
		r = neonNumbers + len(g.constants)
		g.constants[key] = r
		fmt.Fprintf(&g.head, "%s\tVDUP R11, V%d.%s\n", load, r, lane)
	}
	return r
}

func (g *arm) temp(n int) int { return neonTemps + n }

func (g *arm) slots() int { return 4 / g.accs }

func (g *arm) acc(slot int) []int {
	all := make([]int, g.accs)
	for i := range all {
		all[i] = slot*g.accs + i
	}
	return all
}

func (g *arm) arguments(pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&g.head, "\tMOVD %s(FP), %s\n", pairs[i], pairs[i+1])
	}
}

func (g *arm) ends(slots int) {
	for s := range slots {
		if g.finish != nil {
			g.finish(g, g.acc(s))
		}
	}
}

// loops emits blocks, single vectors and the end. R0 is dst, R3 the bytes left, R4 whether stores go past the caches. The
// function last computes the last vector, and vectors as many as it is told.
func (g *arm) loops(last func(), vectors func(slots int), advance func(bytes int)) {
	block := neonVector * g.slots()
	last()
	g.i("VMOV V0.B16, V%d.B16", neonLast)
	g.i("ADD R0, R3, R6")
	g.i("SUB $%d, R6", neonVector)
	g.i("CMP $%d, R3", block)
	g.i("BLT vectors")
	g.label("blocks")
	vectors(g.slots())
	g.i("CBNZ R4, streams")
	for s := range g.slots() {
		g.i("FMOVQ F%d, %d(R0)", g.acc(s)[0], s*neonVector)
	}
	g.label("stored")
	advance(block)
	g.i("CMP $%d, R3", block)
	g.i("BGE blocks")
	g.label("vectors")
	g.i("CMP $%d, R3", neonVector)
	g.i("BLE rest")
	vectors(1)
	g.i("FMOVQ F0, (R0)")
	advance(neonVector)
	g.i("B vectors")
	g.label("rest")
	g.i("FMOVQ F%d, (R6)", neonLast)
	g.i("RET")
	g.label("streams")
	for s := 0; s < g.slots(); s += 2 {
		g.code.WriteString(pastCaches(g.acc(s)[0], g.acc(s + 1)[0], s*neonVector))
	}
	g.i("B stored")
}

// advances adds to pointers and takes from the bytes left.
func (g *arm) advances(pointers ...string) func(bytes int) {
	return func(bytes int) {
		for _, r := range pointers {
			g.i("ADD $%d, %s", bytes, r)
		}
		g.i("SUB $%d, R3", bytes)
	}
}

func (g *arm) text() string { return g.head.String() + g.code.String() }

func memory(base string, slot int) string { return fmt.Sprintf("%d(%s)", slot*neonVector, base) }

// armReduce is the shape of two operands, R1 and R2.
func armReduce(b armBody) string {
	g := newArm(b)
	g.arguments("dst+0", "R0", "a+8", "R1", "b+16", "R2", "n+24", "R3", "stream+32", "R4")
	at := func(slots int, a, b string) {
		for s := range slots {
			g.load(g, g.acc(s), memory(a, s))
			g.op(g, g.acc(s), memory(b, s))
		}
		g.ends(slots)
	}
	last := func() {
		g.i("ADD R1, R3, R7")
		g.i("SUB $%d, R7", neonVector)
		g.i("ADD R2, R3, R8")
		g.i("SUB $%d, R8", neonVector)
		at(1, "R7", "R8")
	}
	g.loops(last, func(slots int) { at(slots, "R1", "R2") }, g.advances("R1", "R2", "R0"))
	return g.text()
}

// armFold is the shape of any number of operands: R2 slices from R1 on, of which R5 says where the next vector is. The
// registers R7 and R8 count the operands, R9 has one's address. R10 is not 0 where sums are divided.
func armFold(b armBody) string {
	g := newArm(b)
	g.arguments("dst+0", "R0", "src+8", "R1", "k+16", "R2", "from+24", "R5", "n+32", "R3", "stream+40", "R4")
	if b.divide != nil {
		g.arguments("by+48", "R10")
	}
	passes := 0
	at := func(slots int, offset string) {
		passes++
		g.operands(slots, offset, passes)
		g.divided(slots, passes)
		g.ends(slots)
	}
	last := func() {
		g.i("ADD R5, R3, R12")
		g.i("SUB $%d, R12", neonVector)
		at(1, "R12")
	}
	g.loops(last, func(slots int) { at(slots, "R5") }, g.advances("R5", "R0"))
	return g.text()
}

// operands reduces the vectors of all operands.
func (g *arm) operands(slots int, offset string, pass int) {
	next := func() {
		g.i("MOVD (R7), R9")
		g.i("ADD %s, R9", offset)
	}
	g.i("MOVD R1, R7")
	next()
	for s := range slots {
		g.load(g, g.acc(s), memory("R9", s))
	}
	g.i("MOVD R2, R8")
	g.label(fmt.Sprintf("next%d", pass))
	g.i("SUB $1, R8")
	g.i("CBZ R8, over%d", pass)
	g.i("ADD $24, R7")
	next()
	for s := range slots {
		g.op(g, g.acc(s), memory("R9", s))
	}
	g.i("B next%d", pass)
	g.label(fmt.Sprintf("over%d", pass))
}

// divided divides sums before they are rounded, if R10 says so.
func (g *arm) divided(slots, pass int) {
	if g.divide == nil {
		return
	}
	g.i("CBZ R10, whole%d", pass)
	for s := range slots {
		g.divide(g, g.acc(s))
	}
	g.label(fmt.Sprintf("whole%d", pass))
}

// armUnary is the shape of one operand, R1.
func armUnary(b armBody) string {
	g := newArm(b)
	g.arguments("dst+0", "R0", "src+8", "R1", "n+16", "R3")
	g.head.WriteString("\tMOVD $0, R4\n")
	if b.inputs != nil {
		b.inputs(g)
	}
	at := func(slots int, base string) {
		for s := range slots {
			g.load(g, g.acc(s), memory(base, s))
		}
		g.ends(slots)
	}
	last := func() {
		g.i("ADD R1, R3, R7")
		g.i("SUB $%d, R7", neonVector)
		at(1, "R7")
	}
	g.loops(last, func(slots int) { at(slots, "R1") }, g.advances("R1", "R0"))
	return g.text()
}
