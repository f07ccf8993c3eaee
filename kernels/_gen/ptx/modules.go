package main

// An archive is the modules of one element type, or those of none.
type archive struct {
	name    string
	modules []*module
}

type module struct {
	name    string
	source  string
	defines []string
	ptx     []byte
}

func (a *archive) bytes() []byte {
	var all []byte
	for _, m := range a.modules {
		all = append(all, m.ptx...)
	}
	return all
}

// class says which kinds of reduction a type has.
type class int

const (
	integer class = iota
	floating
	boolean
)

var types = []struct {
	name, element string
	class         class
}{
	{"uint8", "U8", integer}, {"int8", "I8", integer}, {"int16", "I16", integer}, {"int32", "I32", integer},
	{"int64", "I64", integer}, {"uint32", "U32", integer}, {"uint64", "U64", integer},
	{"float16", "F16", floating}, {"bfloat16", "BF16", floating}, {"float32", "F32", floating},
	{"float64", "F64", floating}, {"float8_e4m3fn", "E4M3", floating}, {"float8_e5m2", "E5M2", floating},
	{"bool", "U8", boolean},
}

// kinds are named as colligo names them; word says that lines are folded as words, whatever the elements.
var kinds = map[class][]struct {
	name, op string
	word     bool
}{
	integer: {{"sum", "Sum", false}, {"prod", "Prod", false}, {"min", "Min", false}, {"max", "Max", false},
		{"band", "BAnd", true}, {"bor", "BOr", true}, {"bxor", "BXor", true}},
	floating: {{"sum", "Sum", false}, {"prod", "Prod", false}, {"min", "Min", false}, {"max", "Max", false}},
	boolean:  {{"band", "BoolAnd", true}, {"bor", "BoolOr", true}, {"bxor", "BoolXor", true}},
}

// families are the sources that are compiled for each type and kind.
var families = []string{"local", "ll", "tiles", "ll128", "sentinel", "fused", "direct"}

func archives() []*archive {
	all := []*archive{{name: "move", modules: []*module{{name: "move", source: "move.cu"}}}}
	for _, t := range types {
		a := &archive{name: t.name}
		for _, f := range families {
			a.modules = append(a.modules, reductions(f, t.element, t.class)...)
		}
		if t.class == floating {
			a.modules = append(a.modules, &module{name: "unary", source: "unary.cu", defines: []string{"ELEMENT=" + t.element}})
		}
		all = append(all, a)
	}
	return all
}

// reductions returns the modules of one family for one type.
func reductions(family, element string, c class) (all []*module) {
	for _, k := range kinds[c] {
		m := &module{name: family + "/" + k.name, source: family + ".cu", defines: []string{"ELEMENT=" + element, "OP=" + k.op}}
		if k.word {
			m.defines = append(m.defines, "WORD=U32")
		}
		all = append(all, m)
	}
	return all
}
