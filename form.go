package colligo

import "fmt"

// form is what tensors have in common that differ in memory and number of elements alone. It is never changed once a tensor has it.
type form struct {
	dtype   DType
	elem    int // bytes of an element
	device  Device
	shape   []int // nil for one dimension of all elements
	strides []int // in elements; nil when contiguous
}

// knownGPUs is how many GPUs have the forms of their tensors of one dimension in flatForms.
const knownGPUs = 32

// flatForms are the forms of tensors of one dimension by element type: first the CPU's, then those of GPUs by index. So no tensor of one
// dimension allocates, and Go's comparison finds two of the same memory equal.
var flatForms = func() (all [1 + knownGPUs][numDTypes]form) {
	for i := range all {
		on := Device{}
		if i > 0 {
			on = Device{CUDA, i - 1}
		}
		for _, d := range DTypes() {
			all[i][d] = newFlatForm(on, d)
		}
	}
	return all
}()

func newFlatForm(on Device, d DType) form { return form{dtype: d, elem: d.Size(), device: on} }

// flatForm returns the form of tensors of one dimension with a valid element type.
func flatForm(on Device, d DType) *form {
	switch {
	case on == Device{}:
		return &flatForms[0][d]
	case on.Kind == CUDA && uint(on.Index) < knownGPUs:
		return &flatForms[1+on.Index][d]
	}
	f := newFlatForm(on, d)
	return &f
}

// formOf returns the form of so many contiguous elements of a shape, and checks all three.
func formOf(on Device, count int, d DType, shape []int) *form {
	if !d.Valid() || count < 0 {
		panic(fmt.Sprintf("colligo: tensor of %d elements of %v", count, d))
	}
	if len(shape) == 0 {
		return flatForm(on, d)
	}
	if product(shape) != count {
		panic(fmt.Sprintf("colligo: shape %v has %d elements, the memory has %d", shape, product(shape), count))
	}
	f := newFlatForm(on, d)
	f.shape = append([]int(nil), shape...)
	return &f
}
