package nccl

import (
	"fmt"
	"strings"
)

// Library is the loaded library.
type Library struct {
	// Path is where it was found.
	Path string

	table   Table
	version int // as ncclGetVersion has it
}

// New returns a library of a table that is loaded already. The path is for errors.
func New(path string, t Table) (*Library, error) {
	l := &Library{Path: path, table: t}
	var v int32
	if r := t.GetVersion(&v); r != Success {
		return nil, fmt.Errorf("nccl: ncclGetVersion of %s: %v", path, r)
	}
	l.version = int(v)
	return l, nil
}

// Version returns the library's version, such as "2.28.9".
func (l *Library) Version() string { return FormatVersion(l.version) }

// VersionCode returns the library's version as a number that grows, such as 22809.
func (l *Library) VersionCode() int { return l.version }

// FormatVersion prints a version number of ncclGetVersion. Before 2.9 the numbers had a digit less for the minor part.
func FormatVersion(v int) string {
	if v < 10000 {
		return fmt.Sprintf("%d.%d.%d", v/1000, v%1000/100, v%100)
	}
	return fmt.Sprintf("%d.%d.%d", v/10000, v%10000/100, v%100)
}

// has refuses a function that the library does not have.
func (l *Library) has(function string, there bool) error {
	if there && l.version >= since[function] {
		return nil
	}
	return &TooOldError{Function: function, Needs: since[function], Version: l.Version(), Path: l.Path}
}

// check makes an error of a result. The communicator may be 0.
func (l *Library) check(function string, r Result, c CommHandle) error {
	if r == Success {
		return nil
	}
	e := &Error{Function: function, Result: r, Text: l.table.GetErrorString(r), Version: l.Version(), Path: l.Path}
	if l.table.GetLastError != nil {
		e.Last = strings.TrimSpace(l.table.GetLastError(c))
	}
	return e
}

// NewUniqueID makes the identity of a communicator.
func (l *Library) NewUniqueID() (*UniqueID, error) {
	id := new(UniqueID)
	return id, l.check("ncclGetUniqueId", l.table.GetUniqueId(id), 0)
}

// GroupStart begins a group of calls on this thread, which the library launches together at GroupEnd. Groups nest.
func (l *Library) GroupStart() error {
	return l.check("ncclGroupStart", l.table.GroupStart(), 0)
}

// GroupEnd launches the calls of the group. With communicators that do not block the error can be one of InProgress. The
// communicators of the group tell then when the launch is through, by Comm.Settle.
func (l *Library) GroupEnd() error {
	return l.check("ncclGroupEnd", l.table.GroupEnd(), 0)
}
