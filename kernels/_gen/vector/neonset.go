package main

// neon lists the functions of arm64.
func neon() set {
	s := set{name: "neon", arch: "arm64"}
	binary := func(name string, types []string, b armBody, fields ...string) {
		name = "neon" + fields[0] + name
		s.functions = append(s.functions,
			function{name, reduce, types, fields, armReduce(b)}, function{name + "Fold", fold, nil, nil, armFold(b)})
	}
	divide := func(field, name string, b armBody) {
		s.functions = append(s.functions, function{"neon" + field + name, unary, []string{name}, []string{field}, armUnary(b)})
	}
	neonIntegers(binary)
	for _, t := range []struct{ name, lanes, of string }{{"Float32", "4s", "S4"}, {"Float64", "2d", "D2"}} {
		types := []string{t.name}
		binary(t.name, types, armPlain("fadd "+t.lanes), "Sum")
		binary(t.name, types, armPlain("fmul "+t.lanes), "Prod")
		binary(t.name, types, armFloatOrder("fmin ", t.lanes, t.of), "Min")
		binary(t.name, types, armFloatOrder("fmax ", t.lanes, t.of), "Max")
		divide("Divide", t.name, armByNumber("fdiv "+t.lanes, t.of))
		divide("Scale", t.name, armByNumber("fmul "+t.lanes, t.of))
	}
	for _, h := range armHalves() {
		types := []string{h.name}
		binary(h.name, types, h.arithmetic("fadd 4s"), "Sum")
		binary(h.name, types, h.arithmetic("fmul 4s"), "Prod")
		binary(h.name, types, h.patternOrder(true), "Min")
		binary(h.name, types, h.patternOrder(false), "Max")
		divide("Divide", h.name, h.byNumber("fdiv 4s"))
		divide("Scale", h.name, h.byNumber("fmul 4s"))
	}
	binary("Bits", allIntegers, armPlain("and 16b"), "BAnd")
	binary("Bits", allIntegers, armPlain("orr 16b"), "BOr")
	binary("Bits", allIntegers, armPlain("eor 16b"), "BXor")
	bools := []string{"Bool"}
	binary("Bool", bools, armTruth("orr 16b"), "Sum", "Max", "BOr")
	binary("Bool", bools, armTruth("and 16b"), "Prod", "Min", "BAnd")
	binary("Bool", bools, armTruth("eor 16b"), "BXor")
	divide("Divide", "Int64", armDivideLongs())
	divide("Divide", "Int32", armDivideWords())
	divide("Divide", "Int8", armDivideBytes(true))
	divide("Divide", "Uint8", armDivideBytes(false))
	return s
}

// armLanes are the lanes of integers.
var armLanes = map[string]string{"B": "16b", "W": "8h", "D": "4s", "Q": "2d"}

func neonIntegers(binary func(name string, types []string, b armBody, fields ...string)) {
	for _, lane := range []string{"B", "W", "D", "Q"} {
		types, lanes := integers[lane], armLanes[lane]
		binary("Int"+bits[lane], types, armPlain("add "+lanes), "Sum")
		if lane == "Q" {
			binary("Int64", types, armLongProduct(), "Prod")
		} else {
			binary("Int"+bits[lane], types, armPlain("mul "+lanes), "Prod")
		}
		for _, t := range types {
			sign := "s"
			if t[0] == 'U' {
				sign = "u"
			}
			if lane == "Q" {
				binary(t, []string{t}, armLongOrder(sign == "u", true), "Min")
				binary(t, []string{t}, armLongOrder(sign == "u", false), "Max")
				continue
			}
			binary(t, []string{t}, armPlain(sign+"min "+lanes), "Min")
			binary(t, []string{t}, armPlain(sign+"max "+lanes), "Max")
		}
	}
}
