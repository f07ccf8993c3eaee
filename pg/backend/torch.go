package backend

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
)

// Torch is what a backend has to know of a job whose other ranks are PyTorch's. Host.Set and Host.Get then reach the part of the
// store that PyTorch's backend for the device has.
type Torch struct {
	Version Version
	// Bound says that the group is bound to a device. Its backend is opened when the group forms. c10d: device_id.
	Bound bool

	exchanges atomic.Int64
}

// NextExchange returns how many identities of communicators the group has exchanged before, and counts one more. PyTorch's ranks count
// alike, and name the key by the number.
func (t *Torch) NextExchange() int { return int(t.exchanges.Add(1)) - 1 }

// NoColor as the color of Split makes no backend for this rank.
const NoColor = -1

// Splitter is a Backend that can make backends of groups of its ranks out of itself.
type Splitter interface {
	Backend
	// Split makes the backend of a group on the ranks that give one color, in the order of their keys. All ranks of this backend call
	// it, in the order of its operations. A rank that gives NoColor has no host, and gets no backend. c10d: Backend.split.
	Split(ctx context.Context, h Host, color, key int) (Backend, error)
}

// Version is a version of PyTorch.
type Version struct{ Major, Minor int }

// DefaultVersion is taken where a program names none.
var DefaultVersion = Version{2, 11}

// ParseVersion reads a version such as "2.6" or "1.13.1"; empty is DefaultVersion.
func ParseVersion(s string) (v Version, err error) {
	if s == "" {
		return DefaultVersion, nil
	}
	parts := strings.SplitN(s, ".", 3)
	if len(parts) > 1 {
		if v.Major, err = strconv.Atoi(parts[0]); err == nil {
			v.Minor, err = strconv.Atoi(parts[1])
		}
	}
	if err != nil || len(parts) < 2 {
		return v, fmt.Errorf("PyTorch %q is not a version such as 2.11", s)
	}
	return v, nil
}

// String is the version as ParseVersion reads it.
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// From reports whether the version is a given one or a later one.
func (v Version) From(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}
