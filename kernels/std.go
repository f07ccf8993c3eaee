package kernels

import "github.com/colligo-go/colligo"

// stdTable holds the kernels of LookupStd that differ from those of Lookup.
var stdTable = buildStdTable()

// LookupStd returns the kernel that C++ programs such as Gloo would compute with. It differs from Lookup where the order of the
// operands counts. The minimum and maximum of floating point numbers are those of std::min and std::max: the left operand wins
// where neither is below the other. So they tell of a NaN only if it comes from the left. Truth values are bytes that are added. The averages
// of floating point and complex numbers are sums that Finish divides, so their Weight is 1.
func LookupStd(d colligo.DType, k colligo.OpKind) (*Kernel, error) {
	if d == colligo.Bool {
		d = colligo.Uint8
	}
	if int(d) < len(stdTable) && int(k) < len(stdTable[d]) && stdTable[d][k].reduce != nil {
		return &stdTable[d][k], nil
	}
	return Lookup(d, k)
}

func buildStdTable() *kernelTable {
	t := new(kernelTable)
	add := func(d colligo.DType, least, greatest func(dst, a, b []byte)) {
		for k, f := range map[colligo.OpKind]func(dst, a, b []byte){colligo.KindMin: least, colligo.KindMax: greatest} {
			t[d][k] = Kernel{name: "std " + k.String() + " " + d.String(), size: d.Size(), align: uintptr(d.Size()), reduce: f}
		}
	}
	add(colligo.Float32, stdLeast[float32], stdGreatest[float32])
	add(colligo.Float64, stdLeast[float64], stdGreatest[float64])
	add(colligo.Float16, stdLeastBits(colligo.Float16ToFloat32), stdGreatestBits(colligo.Float16ToFloat32))
	add(colligo.BFloat16, stdLeastBits(colligo.BFloat16ToFloat32), stdGreatestBits(colligo.BFloat16ToFloat32))
	divide := map[colligo.DType]func(dst, src []byte, by int){
		colligo.Float32: stdDivide[float32], colligo.Float64: stdDivide[float64],
		colligo.Float16:  stdDivideBits(colligo.Float16ToFloat32, colligo.Float16FromFloat32),
		colligo.BFloat16: stdDivideBits(colligo.BFloat16ToFloat32, colligo.BFloat16FromFloat32),
	}
	for _, d := range colligo.DTypes() {
		if f := divide[d.Real()]; f != nil {
			k := table[d][colligo.KindAvg]
			k.weighs, k.divide = false, f
			t[d][colligo.KindAvg] = k
		}
	}
	return t
}

func stdLeast[T float](dst, a, b []byte) {
	d, x, y := views[T](dst, a, b)
	for i := range d {
		m := x[i]
		if y[i] < m {
			m = y[i]
		}
		d[i] = m
	}
}

// stdGreatest is stdLeast's other end.
func stdGreatest[T float](dst, a, b []byte) {
	d, x, y := views[T](dst, a, b)
	for i := range d {
		m := x[i]
		if m < y[i] {
			m = y[i]
		}
		d[i] = m
	}
}

// stdDivide divides each number, or each part of a complex one.
func stdDivide[T float](dst, src []byte, by int) {
	d, x := pair[T](dst, src)
	for i := range d {
		d[i] = x[i] / T(by)
	}
}

// stdDivideBits divides patterns of 16 bits as the numbers that they stand for.
func stdDivideBits(number func(uint16) float32, bits func(float32) uint16) func(dst, src []byte, by int) {
	return func(dst, src []byte, by int) {
		d, x := pair[uint16](dst, src)
		for i := range d {
			d[i] = bits(number(x[i]) / float32(by))
		}
	}
}

// stdLeastBits compares patterns of 16 bits as the numbers that they stand for.
func stdLeastBits(number func(uint16) float32) func(dst, a, b []byte) {
	return func(dst, a, b []byte) {
		d, x, y := views[uint16](dst, a, b)
		for i := range d {
			m := x[i]
			if number(y[i]) < number(m) {
				m = y[i]
			}
			d[i] = m
		}
	}
}

// stdGreatestBits is stdLeastBits' other end.
func stdGreatestBits(number func(uint16) float32) func(dst, a, b []byte) {
	return func(dst, a, b []byte) {
		d, x, y := views[uint16](dst, a, b)
		for i := range d {
			m := x[i]
			if number(m) < number(y[i]) {
				m = y[i]
			}
			d[i] = m
		}
	}
}
