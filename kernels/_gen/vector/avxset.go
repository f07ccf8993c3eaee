package main

// avx lists the functions of AVX2 or AVX-512.
func avx(i isa) set {
	s := set{name: i.name, arch: "amd64"}
	for _, b := range i.binaries() {
		name := i.name + b.fields[0] + b.name
		s.functions = append(s.functions,
			function{name, reduce, b.types, b.fields, reduceText(i, b.body)},
			function{name + "Fold", fold, nil, nil, foldText(i, b.body)})
	}
	for _, u := range i.unaries() {
		s.functions = append(s.functions,
			function{i.name + u.fields[0] + u.name, unary, u.types, u.fields, unaryText(i, u.body)})
	}
	return s
}

// named is a body with its place in the table.
type named struct {
	fields []string // of vectorLoops, such as Sum; the first is part of the function's name
	name   string   // the rest of it, such as Float32
	types  []string
	body   body
}

// integers are the integer types by width.
var integers = map[string][]string{"B": {"Uint8", "Int8"}, "W": {"Int16"}, "D": {"Int32", "Uint32"}, "Q": {"Int64", "Uint64"}}

// allIntegers are those that bitwise reductions take.
var allIntegers = []string{"Uint8", "Int8", "Int16", "Int32", "Int64", "Uint32", "Uint64"}

// binaries are the bodies of reduce and fold.
func (i isa) binaries() []named {
	var all []named
	add := func(field, name string, types []string, b body) {
		all = append(all, named{[]string{field}, name, types, b})
	}
	for _, lane := range []string{"B", "W", "D", "Q"} {
		types := integers[lane]
		add("Sum", "Int"+bits[lane], types, i.plain(direct("VPADD"+lane)))
		add("Prod", "Int"+bits[lane], types, i.plain(i.integerProduct(lane)))
		for _, t := range types {
			add("Min", t, []string{t}, i.plain(i.integerOrder(lane, t[0] == 'U', true)))
			add("Max", t, []string{t}, i.plain(i.integerOrder(lane, t[0] == 'U', false)))
		}
	}
	for _, t := range []struct{ name, suffix, lane string }{{"Float32", "PS", "D"}, {"Float64", "PD", "Q"}} {
		types := []string{t.name}
		add("Sum", t.name, types, i.plain(direct("VADD"+t.suffix)))
		add("Prod", t.name, types, i.plain(direct("VMUL"+t.suffix)))
		add("Min", t.name, types, i.plain(i.floatOrder(t.suffix, t.lane, "VMIN", "VOR")))
		add("Max", t.name, types, i.plain(i.floatOrder(t.suffix, t.lane, "VMAX", "VAND")))
	}
	for _, t := range i.halves() {
		types := []string{t.name}
		add("Sum", t.name, types, t.arithmetic("VADDPS"))
		add("Prod", t.name, types, t.arithmetic("VMULPS"))
		add("Min", t.name, types, i.patternOrder(t, true))
		add("Max", t.name, types, i.patternOrder(t, false))
	}
	add("BAnd", "Bits", allIntegers, i.plain(direct(i.logic("VPAND"))))
	add("BOr", "Bits", allIntegers, i.plain(direct(i.logic("VPOR"))))
	add("BXor", "Bits", allIntegers, i.plain(direct(i.logic("VPXOR"))))
	return append(all, i.bools()...)
}

var bits = map[string]string{"B": "8", "W": "16", "D": "32", "Q": "64"}

// bools reduce bytes to 0 or 1: the least of a byte and 1 is its truth.
func (i isa) bools() []named {
	var all []named
	for _, o := range []struct {
		op     string
		fields []string
	}{
		{"VPOR", []string{"Sum", "Max", "BOr"}}, {"VPAND", []string{"Prod", "Min", "BAnd"}}, {"VPXOR", []string{"BXor"}},
	} {
		b := i.plain(func(g *gen, acc []int, m operand) {
			t := g.temp(0)
			g.i("VPMINUB", m.plus(0), g.number("B", 0x01), t)
			g.i(g.logic(o.op), t, acc[0], acc[0])
		})
		b.load = func(g *gen, acc []int, m operand) { g.i("VPMINUB", m.plus(0), g.number("B", 0x01), acc[0]) }
		all = append(all, named{o.fields, "Bool", []string{"Bool"}, b})
	}
	return all
}

// plain is a body whose vectors fill one register.
func (i isa) plain(op func(g *gen, acc []int, m operand)) body {
	return body{bytes: i.width, accs: 1, op: op,
		load: func(g *gen, acc []int, m operand) { g.i(g.move(), m.plus(0), acc[0]) }}
}

// direct is one instruction on memory. The operand that came first is its first source: of two NaNs, it survives.
func direct(name string) func(g *gen, acc []int, m operand) {
	return func(g *gen, acc []int, m operand) { g.i(name, m.plus(0), acc[0], acc[0]) }
}

// logic is the name of a bitwise instruction.
func (i isa) logic(name string) string {
	if i.masks {
		return name + "D"
	}
	return name
}

// unaries are the bodies of divide and scale.
func (i isa) unaries() []named {
	var all []named
	add := func(field, name string, b body) { all = append(all, named{[]string{field}, name, []string{name}, b}) }
	for _, t := range []struct{ name, suffix, lane string }{{"Float32", "PS", "D"}, {"Float64", "PD", "Q"}} {
		add("Divide", t.name, i.byNumber("VDIV"+t.suffix, t.lane))
		add("Scale", t.name, i.byNumber("VMUL"+t.suffix, t.lane))
	}
	for _, t := range i.halves() {
		add("Divide", t.name, t.byNumber("VDIVPS"))
		add("Scale", t.name, t.byNumber("VMULPS"))
	}
	add("Divide", "Int64", i.divideLongs())
	add("Divide", "Int32", i.divideWords())
	add("Divide", "Int8", i.divideBytes(true))
	add("Divide", "Uint8", i.divideBytes(false))
	return all
}

// byNumber combines each element with the parameter x.
func (i isa) byNumber(name, lane string) body {
	b := i.plain(nil)
	b.inputs = func(g *gen) { g.input(lane, "x+24") }
	b.finish = func(g *gen, acc []int) { g.i(name, g.input(lane, "x+24"), acc[0], acc[0]) }
	return b
}
