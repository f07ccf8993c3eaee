package gloo

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/store/tcpstore"
	transport "github.com/colligo-go/colligo/transport/gloo"
)

// Version is the version of PyTorch that the other ranks run.
type Version struct{ Major, Minor int }

// DefaultVersion is taken where a program names none.
var DefaultVersion = Version{2, 11}

// ParseVersion reads a version such as "2.6" or "1.13.1"; empty is DefaultVersion.
func ParseVersion(s string) (v Version, err error) {
	if s == "" {
		return DefaultVersion, nil
	}
	parts := strings.SplitN(s, ".", 3)
	if len(parts) < 2 {
		return v, fmt.Errorf("PyTorch %q is not a version such as 2.11", s)
	}
	if v.Major, err = strconv.Atoi(parts[0]); err == nil {
		v.Minor, err = strconv.Atoi(parts[1])
	}
	switch {
	case err != nil:
		return v, fmt.Errorf("PyTorch %q is not a version such as 2.11", s)
	case v != Version{1, 13} && !v.From(2, 1):
		return v, fmt.Errorf("PyTorch %v: its ranks meet in a way that is not known here; 1.13 is, and 2.1 and later", v)
	}
	return v, nil
}

// String is the version as ParseVersion reads it.
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// From reports whether the version is a given one or a later one.
func (v Version) From(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// Store is the dialect of its TCP store.
func (v Version) Store() tcpstore.Dialect {
	if v.From(2, 1) {
		return tcpstore.Torch2
	}
	return tcpstore.Torch113
}

// Links is how its ranks find one another.
func (v Version) Links() transport.Dialect {
	if v.From(2, 1) {
		return transport.New
	}
	return transport.Old
}

// types returns the element types that it reduces and copies, besides those that all versions do.
func (v Version) types(d colligo.DType) bool {
	switch d {
	case colligo.Float32, colligo.Float64, colligo.Float16, colligo.Int8, colligo.Uint8, colligo.Int32, colligo.Int64:
		return true
	case colligo.BFloat16, colligo.Bool:
		return v.From(2, 1)
	}
	return false
}

// Features by the version that brought them.
func (v Version) averages() bool            { return v.From(2, 8) }
func (v Version) reduceScatters() bool      { return v.From(2, 3) }
func (v Version) reduceScattersLists() bool { return v.From(2, 8) }
func (v Version) exchangesLists() bool      { return v.From(2, 12) }
func (v Version) gathersNothing() bool      { return v.From(2, 1) } // an all_gather without elements; 1.13 divides by zero
func (v Version) storeBarrier() bool        { return !v.From(2, 1) }
