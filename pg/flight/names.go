package flight

import (
	"strconv"

	"github.com/colligo-go/colligo"
)

// The version of the format and the name of the library in our own dumps.
const (
	version = "2.10"
	library = "colligo"
)

// typeNames are the element types as PyTorch's dumps have them.
var typeNames = map[colligo.DType]string{
	colligo.Uint8: "Byte", colligo.Int8: "Char", colligo.Int16: "Short", colligo.Int32: "Int", colligo.Int64: "Long",
	colligo.Uint32: "UInt32", colligo.Uint64: "UInt64", colligo.Float16: "Half", colligo.BFloat16: "BFloat16",
	colligo.Float32: "Float", colligo.Float64: "Double", colligo.Float8E4M3FN: "Float8_e4m3fn",
	colligo.Float8E5M2: "Float8_e5m2", colligo.Bool: "Bool", colligo.Complex64: "ComplexFloat",
	colligo.Complex128: "ComplexDouble",
}

// TypeOf returns this library's name of an element type that a dump names as PyTorch does: float32 for Float. Names that it does
// not know are returned as they are.
func TypeOf(name string) string {
	for d, torch := range typeNames {
		if torch == name {
			return d.String()
		}
	}
	return name
}

func typeName(d colligo.DType) string {
	if name, ok := typeNames[d]; ok {
		return name
	}
	return d.String()
}

// number is a group's number as Dump.Status has it.
func number(pg int) string { return strconv.Itoa(pg) }
