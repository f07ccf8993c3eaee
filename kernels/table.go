package kernels

import "github.com/colligo-go/colligo"

// table holds the kernels by element type and kind; entries that OpKind.Check refuses are empty.
var table = buildTable()

type kernelTable [colligo.Complex128 + 1][colligo.KindPremulSum + 1]Kernel

// loops are the ways to reduce one element type; nil where there is none.
type loops struct {
	sum, prod, min, max, band, bor, bxor func(dst, a, b []byte)
	divide                               func(dst, src []byte, by int)
	scale                                func(dst, src []byte, factor float64)
}

func buildTable() *kernelTable {
	t := new(kernelTable)
	for _, d := range colligo.DTypes() {
		l := goLoops(d.Real())
		reduce := [len(t[d])]func(dst, a, b []byte){
			colligo.KindSum: l.sum, colligo.KindAvg: l.sum, colligo.KindProd: l.prod,
			colligo.KindMin: l.min, colligo.KindMax: l.max,
			colligo.KindBAnd: l.band, colligo.KindBOr: l.bor, colligo.KindBXor: l.bxor,
			colligo.KindPremulSum: l.sum,
		}
		for i, f := range reduce {
			k := colligo.OpKind(i)
			if _, _, err := k.Check(d); err != nil {
				continue
			}
			t[d][k] = Kernel{name: k.String() + " " + d.String(), size: d.Size(), align: alignOf(d, k),
				reduce: f, scale: l.scale}
			if k == colligo.KindAvg {
				t[d][k].divide, t[d][k].weighs = l.divide, l.scale != nil
			}
		}
	}
	return t
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
		return signedLoops[int64]()
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
