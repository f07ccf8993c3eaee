package kernels

import "github.com/colligo-go/colligo"

// table holds the kernels by element type and kind; entries that OpKind.Check refuses are empty.
var table = buildTable(best())

// best is the machine's best instruction set, or one without loops.
func best() instructionSet {
	if all := instructionSets(); len(all) > 0 {
		return all[0]
	}
	return instructionSet{name: "go"}
}

// kinds is the number of kinds of reductions.
const kinds = int(colligo.KindPremulSum) + 1

type kernelTable [colligo.Complex128 + 1][kinds]Kernel

// loops are the ways to reduce one element type; nil where there is none.
type loops struct {
	sum, prod, min, max, band, bor, bxor func(dst, a, b []byte)
	divide                               func(dst, src []byte, by int)
	scale                                func(dst, src []byte, factor float64)
}

// buildTable takes the vector loops of set where it has them, and Go loops elsewhere.
func buildTable(set instructionSet) *kernelTable {
	t := new(kernelTable)
	for _, d := range colligo.DTypes() {
		l, v := goLoops(d.Real()), vectorLoops{}
		if set.loops != nil {
			v = set.loops(d.Real())
		}
		for k := range l.byKind() {
			kind := colligo.OpKind(k)
			if _, _, err := kind.Check(d); err != nil {
				continue
			}
			t[d][k] = Kernel{name: kind.String() + " " + d.String(), size: d.Size(), align: alignOf(d, kind), reduce: l.byKind()[k],
				scale: l.scale, kind: kind, real: d.Real(), least: set.least, vector: v.byKind()[k], scales: v.scale}
			if _, _, err := colligo.KindAvg.Check(d); err == nil {
				t[d][k].finish = &t[d][colligo.KindAvg]
			}
			if kind == colligo.KindAvg {
				t[d][k].divide, t[d][k].divides, t[d][k].weighs = l.divide, v.divide, l.scale != nil
			}
		}
	}
	return t
}

// byKind lists the loops by the kind of a reduction.
func (l *loops) byKind() [kinds]func(dst, a, b []byte) {
	return byKind(l.sum, l.prod, l.min, l.max, l.band, l.bor, l.bxor)
}

func (v *vectorLoops) byKind() [kinds]binaryLoop {
	return byKind(v.sum, v.prod, v.min, v.max, v.band, v.bor, v.bxor)
}

// byKind places loops. The average and the premultiplied sum are reduced as sums are.
func byKind[T any](sum, prod, min, max, band, bor, bxor T) [kinds]T {
	return [kinds]T{
		colligo.KindSum: sum, colligo.KindAvg: sum, colligo.KindPremulSum: sum, colligo.KindProd: prod,
		colligo.KindMin: min, colligo.KindMax: max,
		colligo.KindBAnd: band, colligo.KindBOr: bor, colligo.KindBXor: bxor,
	}
}

func alignOf(d colligo.DType, k colligo.OpKind) uintptr {
	if d == colligo.Bool || k == colligo.KindBAnd || k == colligo.KindBOr || k == colligo.KindBXor {
		return wordAlign
	}
	return uintptr(d.Real().Size())
}

func goLoops(d colligo.DType) loops {
	switch d {
	case colligo.Uint8:
		return unsignedLoops[uint8]()
	case colligo.Int8:
		return signedLoops[int8]()
	case colligo.Int16:
		return signedLoops[int16]()
	case colligo.Int32:
		return signedLoops[int32]()
	case colligo.Int64:
		l := signedLoops[int64]()
		l.divide = divideInt64
		return l
	case colligo.Uint32:
		return unsignedLoops[uint32]()
	case colligo.Uint64:
		return unsignedLoops[uint64]()
	case colligo.Float32:
		return floatLoops[float32]()
	case colligo.Float64:
		return floatLoops[float64]()
	case colligo.Float16:
		return float16Loops()
	case colligo.BFloat16:
		return bfloat16Loops()
	case colligo.Float8E4M3FN:
		return e4m3fnLoops()
	case colligo.Float8E5M2:
		return e5m2Loops()
	case colligo.Bool:
		return boolLoops()
	}
	return loops{}
}
