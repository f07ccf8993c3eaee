package gloo

import (
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/store/tcpstore"
	transport "github.com/colligo-go/colligo/transport/gloo"
)

// Version is the version of PyTorch that the other ranks run.
type Version = backend.Version

// Known refuses versions whose ranks meet in a way that is not known here.
func Known(v Version) error {
	if v != (Version{Major: 1, Minor: 13}) && !v.From(2, 1) {
		return fmt.Errorf("PyTorch %v: its ranks meet in a way that is not known here; 1.13 is, and 2.1 and later", v)
	}
	return nil
}

// Dialect returns the store protocol that TCPStore speaks in a version of PyTorch.
func Dialect(v Version) tcpstore.Dialect {
	if v.From(2, 1) {
		return tcpstore.Torch2
	}
	return tcpstore.Torch113
}

// Links is how the ranks of a version find one another.
func Links(v Version) transport.Dialect {
	if v.From(2, 1) {
		return transport.New
	}
	return transport.Old
}

// types returns the element types that a version reduces and copies, besides those that all versions do.
func types(v Version, d colligo.DType) bool {
	switch d {
	case colligo.Float32, colligo.Float64, colligo.Float16, colligo.Int8, colligo.Uint8, colligo.Int32, colligo.Int64:
		return true
	case colligo.BFloat16, colligo.Bool:
		return v.From(2, 1)
	}
	return false
}

// Features by the version that brought them.
func averages(v Version) bool            { return v.From(2, 8) }
func reduceScatters(v Version) bool      { return v.From(2, 3) }
func reduceScattersLists(v Version) bool { return v.From(2, 8) }
func reducesScattered(v Version) bool    { return v.From(2, 8) } // reduce_scatter_tensor otherwise than by sums; before, all is summed
func exchangesLists(v Version) bool      { return v.From(2, 12) }
func gathersNothing(v Version) bool      { return v.From(2, 1) } // an all_gather without elements; 1.13 divides by zero
