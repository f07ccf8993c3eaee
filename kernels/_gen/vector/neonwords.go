package main

import "fmt"

// The assembler of Go knows few vector instructions of arm64, so they are written as words. Each has a comment beside it in the
// language of Arm. The numbers of registers go to bits 0 (d), 5 (n) and 16 (m), as the Arm Architecture Reference Manual,
// chapter C7, has them.

// An opcode is a word without registers, and its text.
type opcode struct {
	word uint32
	text string
}

// opcodes lists the instructions by mnemonic and lanes. In the text, 1 is d, 2 is n, 3 is m.
var opcodes = map[string]opcode{
	"fadd 4s": {0x4e20d400, "fadd v%[1]d.4s, v%[2]d.4s, v%[3]d.4s"},
	"fadd 2d": {0x4e60d400, "fadd v%[1]d.2d, v%[2]d.2d, v%[3]d.2d"},
	"fmul 4s": {0x6e20dc00, "fmul v%[1]d.4s, v%[2]d.4s, v%[3]d.4s"},
	"fmul 2d": {0x6e60dc00, "fmul v%[1]d.2d, v%[2]d.2d, v%[3]d.2d"},
	"fdiv 4s": {0x6e20fc00, "fdiv v%[1]d.4s, v%[2]d.4s, v%[3]d.4s"},
	"fdiv 2d": {0x6e60fc00, "fdiv v%[1]d.2d, v%[2]d.2d, v%[3]d.2d"},
	"fmin 4s": {0x4ea0f400, "fmin v%[1]d.4s, v%[2]d.4s, v%[3]d.4s"},
	"fmin 2d": {0x4ee0f400, "fmin v%[1]d.2d, v%[2]d.2d, v%[3]d.2d"},
	"fmax 4s": {0x4e20f400, "fmax v%[1]d.4s, v%[2]d.4s, v%[3]d.4s"},
	"fmax 2d": {0x4e60f400, "fmax v%[1]d.2d, v%[2]d.2d, v%[3]d.2d"},

	"fcmeq 4s": {0x4e20e400, "fcmeq v%[1]d.4s, v%[2]d.4s, v%[3]d.4s"},
	"fcmeq 2d": {0x4e60e400, "fcmeq v%[1]d.2d, v%[2]d.2d, v%[3]d.2d"},

	"fcvtl 4s":  {0x0e217800, "fcvtl v%[1]d.4s, v%[2]d.4h"},
	"fcvtl2 4s": {0x4e217800, "fcvtl2 v%[1]d.4s, v%[2]d.8h"},
	"fcvtn 4h":  {0x0e216800, "fcvtn v%[1]d.4h, v%[2]d.4s"},
	"fcvtn2 8h": {0x4e216800, "fcvtn2 v%[1]d.8h, v%[2]d.4s"},

	"add 16b": {0x4e208400, "add v%[1]d.16b, v%[2]d.16b, v%[3]d.16b"},
	"add 8h":  {0x4e608400, "add v%[1]d.8h, v%[2]d.8h, v%[3]d.8h"},
	"add 4s":  {0x4ea08400, "add v%[1]d.4s, v%[2]d.4s, v%[3]d.4s"},
	"add 2d":  {0x4ee08400, "add v%[1]d.2d, v%[2]d.2d, v%[3]d.2d"},
	"sub 16b": {0x6e208400, "sub v%[1]d.16b, v%[2]d.16b, v%[3]d.16b"},
	"sub 4s":  {0x6ea08400, "sub v%[1]d.4s, v%[2]d.4s, v%[3]d.4s"},
	"sub 2d":  {0x6ee08400, "sub v%[1]d.2d, v%[2]d.2d, v%[3]d.2d"},
	"mul 16b": {0x4e209c00, "mul v%[1]d.16b, v%[2]d.16b, v%[3]d.16b"},
	"mul 8h":  {0x4e609c00, "mul v%[1]d.8h, v%[2]d.8h, v%[3]d.8h"},
	"mul 4s":  {0x4ea09c00, "mul v%[1]d.4s, v%[2]d.4s, v%[3]d.4s"},

	"smin 16b": {0x4e206c00, "smin v%[1]d.16b, v%[2]d.16b, v%[3]d.16b"},
	"smin 8h":  {0x4e606c00, "smin v%[1]d.8h, v%[2]d.8h, v%[3]d.8h"},
	"smin 4s":  {0x4ea06c00, "smin v%[1]d.4s, v%[2]d.4s, v%[3]d.4s"},
	"smax 16b": {0x4e206400, "smax v%[1]d.16b, v%[2]d.16b, v%[3]d.16b"},
	"smax 8h":  {0x4e606400, "smax v%[1]d.8h, v%[2]d.8h, v%[3]d.8h"},
	"smax 4s":  {0x4ea06400, "smax v%[1]d.4s, v%[2]d.4s, v%[3]d.4s"},
	"umin 16b": {0x6e206c00, "umin v%[1]d.16b, v%[2]d.16b, v%[3]d.16b"},
	"umin 8h":  {0x6e606c00, "umin v%[1]d.8h, v%[2]d.8h, v%[3]d.8h"},
	"umin 4s":  {0x6ea06c00, "umin v%[1]d.4s, v%[2]d.4s, v%[3]d.4s"},
	"umax 16b": {0x6e206400, "umax v%[1]d.16b, v%[2]d.16b, v%[3]d.16b"},
	"umax 4s":  {0x6ea06400, "umax v%[1]d.4s, v%[2]d.4s, v%[3]d.4s"},

	"cmgt 8h": {0x4e603400, "cmgt v%[1]d.8h, v%[2]d.8h, v%[3]d.8h"},
	"cmgt 2d": {0x4ee03400, "cmgt v%[1]d.2d, v%[2]d.2d, v%[3]d.2d"},
	"cmhi 2d": {0x6ee03400, "cmhi v%[1]d.2d, v%[2]d.2d, v%[3]d.2d"},

	"and 16b": {0x4e201c00, "and v%[1]d.16b, v%[2]d.16b, v%[3]d.16b"},
	"orr 16b": {0x4ea01c00, "orr v%[1]d.16b, v%[2]d.16b, v%[3]d.16b"},
	"eor 16b": {0x6e201c00, "eor v%[1]d.16b, v%[2]d.16b, v%[3]d.16b"},
	"bit 16b": {0x6ea01c00, "bit v%[1]d.16b, v%[2]d.16b, v%[3]d.16b"}, // n where m is set
	"bif 16b": {0x6ee01c00, "bif v%[1]d.16b, v%[2]d.16b, v%[3]d.16b"}, // n where m is clear

	"shl16 4s":  {0x4f305400, "shl v%[1]d.4s, v%[2]d.4s, #16"},
	"ushr16 4s": {0x6f300400, "ushr v%[1]d.4s, v%[2]d.4s, #16"},
	"sri16 4s":  {0x6f304400, "sri v%[1]d.4s, v%[2]d.4s, #16"}, // into the lower half
	"ushr1 8h":  {0x6f1f0400, "ushr v%[1]d.8h, v%[2]d.8h, #1"},
	"sshr15 8h": {0x4f110400, "sshr v%[1]d.8h, v%[2]d.8h, #15"},
	"sshr7 16b": {0x4f090400, "sshr v%[1]d.16b, v%[2]d.16b, #7"},
	"shl32 2d":  {0x4f605400, "shl v%[1]d.2d, v%[2]d.2d, #32"},
	"ushr32 2d": {0x6f600400, "ushr v%[1]d.2d, v%[2]d.2d, #32"},
	"sshr63 2d": {0x4f410400, "sshr v%[1]d.2d, v%[2]d.2d, #63"},
	"sshr31 4s": {0x4f210400, "sshr v%[1]d.4s, v%[2]d.4s, #31"},

	"abs 16b":   {0x4e20b800, "abs v%[1]d.16b, v%[2]d.16b"},
	"abs 4s":    {0x4ea0b800, "abs v%[1]d.4s, v%[2]d.4s"},
	"neg 2d":    {0x6ee0b800, "neg v%[1]d.2d, v%[2]d.2d"},
	"ushl 2d":   {0x6ee04400, "ushl v%[1]d.2d, v%[2]d.2d, v%[3]d.2d"},
	"umull 2d":  {0x2ea0c000, "umull v%[1]d.2d, v%[2]d.2s, v%[3]d.2s"},
	"umull2 2d": {0x6ea0c000, "umull2 v%[1]d.2d, v%[2]d.4s, v%[3]d.4s"},
	"umull 4s":  {0x2e60c000, "umull v%[1]d.4s, v%[2]d.4h, v%[3]d.4h"},
	"umull2 4s": {0x6e60c000, "umull2 v%[1]d.4s, v%[2]d.8h, v%[3]d.8h"},
	"ushll 8h":  {0x2f08a400, "ushll v%[1]d.8h, v%[2]d.8b, #0"},
	"ushll2 8h": {0x6f08a400, "ushll2 v%[1]d.8h, v%[2]d.16b, #0"},
	"uzp1 4s":   {0x4e801800, "uzp1 v%[1]d.4s, v%[2]d.4s, v%[3]d.4s"},
	"uzp1 16b":  {0x4e001800, "uzp1 v%[1]d.16b, v%[2]d.16b, v%[3]d.16b"},
	"uzp2 8h":   {0x4e405800, "uzp2 v%[1]d.8h, v%[2]d.8h, v%[3]d.8h"},
	"uaddlp 2d": {0x6ea02800, "uaddlp v%[1]d.2d, v%[2]d.4s"},
	"umlal 2d":  {0x2ea08000, "umlal v%[1]d.2d, v%[2]d.2s, v%[3]d.2s"},
	"rev64 4s":  {0x4ea00800, "rev64 v%[1]d.4s, v%[2]d.4s"},
	"uzp2 4s":   {0x4e805800, "uzp2 v%[1]d.4s, v%[2]d.4s, v%[3]d.4s"},
}

// word is an instruction on registers d, n and perhaps m.
func word(name string, d, n int, m ...int) string {
	o, ok := opcodes[name]
	if !ok {
		panic("no opcode for " + name)
	}
	w := o.word | uint32(n)<<5 | uint32(d)
	all := []any{d, n}
	if len(m) == 1 {
		w |= uint32(m[0]) << 16
		all = append(all, m[0])
	}
	return fmt.Sprintf("\tWORD $%#08x // %s\n", w, fmt.Sprintf(o.text, all...))
}

// pastCaches stores two registers at disp bytes behind R0 without claiming space in caches.
func pastCaches(first, second, disp int) string {
	w := 0xac000000 | uint32(disp/16)<<15 | uint32(second)<<10 | uint32(first)
	return fmt.Sprintf("\tWORD $%#08x // stnp q%d, q%d, [x0, #%d]\n", w, first, second, disp)
}
