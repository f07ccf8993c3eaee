package main

import (
	"fmt"
	"slices"
	"strings"
)

// A set is one instruction set and its functions.
type set struct {
	name, arch string // such as "avx2" and "amd64"
	include    string // lines after the marker in the assembly
	functions  []function
}

// A function is one routine of assembly. Its loops belong to the types that have one width and meaning: a sum of int32 is
// one of uint32, too.
type function struct {
	name   string
	shape  shape
	types  []string // of package colligo, for which the table has it
	fields []string // of vectorLoops, capital
	text   string
}

// shape is a function's parameters.
type shape int

const (
	reduce shape = iota // dst = a op b
	fold                // dst = src[0] op src[1] op ...
	unary               // dst = src changed by a number
)

// parameters of the shapes, in Go. All are words.
var parameters = [...]string{
	reduce: "dst, a, b *byte, n, stream int",
	fold:   "dst *byte, src *[]byte, k, from, n, stream int, by uint64",
	unary:  "dst, src *byte, n int, x, y uint64",
}

// words is how many words the parameters are.
var words = [...]int{reduce: 5, fold: 7, unary: 5}

func (s *set) assembly() string {
	var b strings.Builder
	b.WriteString(marker + "//go:build !noasm\n\n#include \"textflag.h\"\n")
	for _, f := range s.functions {
		fmt.Fprintf(&b, "\n// func %s(%s)\nTEXT ·%s(SB), NOSPLIT, $0-%d\n%s", f.name, parameters[f.shape], f.name, 8*words[f.shape], f.text)
	}
	return b.String()
}

// declarations has the functions' Go declarations and the table of loops by element type.
func (s *set) declarations() string {
	var b strings.Builder
	b.WriteString(marker + "//go:build !noasm\n\npackage kernels\n\nimport \"github.com/colligo-go/colligo\"\n")
	var types []string
	for _, f := range s.functions {
		fmt.Fprintf(&b, "\n//go:noescape\nfunc %s(%s)\n", f.name, parameters[f.shape])
		for _, t := range f.types {
			if !slices.Contains(types, t) {
				types = append(types, t)
			}
		}
	}
	fmt.Fprintf(&b, "\n// %sLoops returns the loops of element type d.\nfunc %sLoops(d colligo.DType) vectorLoops {\n\tswitch d {\n", s.name, s.name)
	for _, t := range types {
		fmt.Fprintf(&b, "case colligo.%s:\nreturn vectorLoops{\n%s}\n", t, s.fields(t))
	}
	b.WriteString("}\nreturn vectorLoops{}\n}\n")
	return b.String()
}

// fields are those of vectorLoops that element type t has.
func (s *set) fields(t string) string {
	var b strings.Builder
	for _, field := range []string{"Sum", "Prod", "Min", "Max", "BAnd", "BOr", "BXor", "Divide", "Scale"} {
		for _, f := range s.functions {
			switch {
			case !slices.Contains(f.types, t) || !slices.Contains(f.fields, field):
			case f.shape == unary:
				fmt.Fprintf(&b, "%s: %s,\n", strings.ToLower(field), f.name)
			case f.shape == reduce:
				fmt.Fprintf(&b, "%s: binaryLoop{%s, %sFold},\n", strings.ToLower(field), f.name, f.name)
			}
		}
	}
	return b.String()
}
