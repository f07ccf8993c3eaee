package safetensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

// MaxHeader is the most bytes that a header may have, as in the format's reference.
const MaxHeader = 100_000_000

// maxDims bounds the dimensions of a tensor. PyTorch has at most 64.
const maxDims = 64

// metadata is the name under which a header has texts in place of a tensor.
const metadata = "__metadata__"

// sizes has the bits of an element of each type of the format.
var sizes = map[string]int{
	"BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64,
	"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}

// Bits returns the bits of an element of a type such as "BF16", 0 for a type that the format does not have.
func Bits(dtype string) int { return sizes[dtype] }

// Tensor is what a header says of a tensor. Its bytes are [Begin, End) of those behind the header.
type Tensor struct {
	Name       string
	DType      string  // one for which Bits is not 0
	Shape      []int64 // empty for a single element
	Begin, End int64
}

// Size returns the tensor's bytes.
func (t *Tensor) Size() int64 { return t.End - t.Begin }

// Header is the header of a file. Tensors are in the order of their bytes; those without any that begin at the same byte are in the
// order of their names.
type Header struct {
	Metadata map[string]string
	Tensors  []Tensor
}

// Size returns the bytes of all tensors.
func (h *Header) Size() int64 {
	if len(h.Tensors) == 0 {
		return 0
	}
	return h.Tensors[len(h.Tensors)-1].End
}

// Parse reads a header, without the length before it.
func Parse(b []byte) (*Header, error) {
	if len(b) > MaxHeader {
		return nil, fmt.Errorf("safetensors: header of %d bytes, at most %d are allowed", len(b), MaxHeader)
	}
	h, err := parse(b)
	if err == nil {
		err = h.settle()
	}
	if err != nil {
		return nil, fmt.Errorf("safetensors: header: %w", err)
	}
	return h, nil
}

// settle sorts the tensors, and checks what the header says of them.
func (h *Header) settle() error {
	slices.SortFunc(h.Tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End), cmp.Compare(a.Name, b.Name))
	})
	names := make(map[string]bool, len(h.Tensors))
	var at int64
	for i := range h.Tensors {
		t := &h.Tensors[i]
		if err := t.check(); err != nil {
			return err
		}
		if names[t.Name] {
			return fmt.Errorf("tensor %q stands in it twice", t.Name)
		}
		if names[t.Name] = true; t.Begin != at {
			return fmt.Errorf("tensor %q begins at byte %d, the one before it ends at %d", t.Name, t.Begin, at)
		}
		at = t.End
	}
	for k, v := range h.Metadata {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return fmt.Errorf("metadata %q is not UTF-8", k)
		}
	}
	return nil
}

// check holds a tensor's bytes against its shape and type.
func (t *Tensor) check() error {
	switch {
	case t.Name == metadata:
		return fmt.Errorf("a tensor is named %s", metadata)
	case !utf8.ValidString(t.Name):
		return fmt.Errorf("name %q is not UTF-8", t.Name)
	case t.Begin < 0 || t.End < t.Begin:
		return fmt.Errorf("tensor %q has bytes [%d, %d)", t.Name, t.Begin, t.End)
	case len(t.Shape) > maxDims:
		return fmt.Errorf("tensor %q has %d dimensions, at most %d are allowed", t.Name, len(t.Shape), maxDims)
	}
	size, err := bytesOf(t.DType, t.Shape)
	if err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	if size != t.Size() {
		return fmt.Errorf("tensor %q has %d bytes, %s of shape %v has %d", t.Name, t.Size(), t.DType, t.Shape, size)
	}
	return nil
}

// bytesOf returns how many bytes a tensor has.
func bytesOf(dtype string, shape []int64) (int64, error) {
	n := uint64(Bits(dtype))
	if n == 0 {
		return 0, fmt.Errorf("element type %q is not known", dtype)
	}
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v is negative", shape)
		}
		over, product := bits.Mul64(n, uint64(d))
		if n = product; over != 0 {
			return 0, fmt.Errorf("shape %v overflows", shape)
		}
	}
	if n%8 != 0 {
		return 0, fmt.Errorf("%s of shape %v does not fill its last byte", dtype, shape)
	}
	if n/8 > math.MaxInt64 {
		return 0, fmt.Errorf("shape %v overflows", shape)
	}
	return int64(n / 8), nil
}

// Encode returns the header as JSON, without the length before it. Spaces at its end make the tensors begin at a multiple of 8 bytes of
// the file. It sorts the tensors.
func (h *Header) Encode() ([]byte, error) {
	if err := h.settle(); err != nil {
		return nil, fmt.Errorf("safetensors: header: %w", err)
	}
	b := []byte("{")
	if len(h.Metadata) > 0 {
		b = append(quoted(b, metadata), ":{"...)
		for i, k := range slices.Sorted(maps.Keys(h.Metadata)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = quoted(append(quoted(b, k), ':'), h.Metadata[k])
		}
		b = append(b, '}')
	}
	for _, t := range h.Tensors {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(quoted(b, t.Name), `:{"dtype":"`+t.DType+`","shape":[`...)
		for i, d := range t.Shape {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, d, 10)
		}
		b = fmt.Appendf(b, `],"data_offsets":[%d,%d]}`, t.Begin, t.End)
	}
	b = append(b, '}')
	b = append(b, bytes.Repeat([]byte(" "), -len(b)&7)...)
	if len(b) > MaxHeader {
		return nil, fmt.Errorf("safetensors: header of %d bytes, at most %d are allowed", len(b), MaxHeader)
	}
	return b, nil
}

// quoted appends a text as JSON.
func quoted(b []byte, s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(errors.New("safetensors: a string that JSON does not have")) // there is none
	}
	return append(b, text...)
}
