package nccl

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/colligo-go/colligo"
)

// Library is the loaded library.
type Library struct {
	// Path is where it was found.
	Path string

	table   Table
	version int // with two digits for the minor part, also before 2.9
	suffix  func() string
	reduced [colligo.KindPremulSum + 1][32]reduced // by reduction and element type; see Reduced
}

// oldest is the oldest version that is taken: the first one that can abort, and tell of errors in the background.
const oldest = 20400

// New returns a library of a table that is loaded already. The path is for errors.
func New(path string, t Table) (*Library, error) {
	l := &Library{Path: path, table: t}
	var v int32
	if r := t.GetVersion(&v); r != Success {
		return nil, fmt.Errorf("nccl: ncclGetVersion of %s: %v", path, r)
	}
	if l.version = grown(int(v)); l.version < oldest {
		return nil, fmt.Errorf("nccl: NCCL %s is older than %s (%s)", FormatVersion(l.version), FormatVersion(oldest), path)
	}
	l.knowReduced()
	return l, nil
}

// grown returns a version number of ncclGetVersion as one that grows. Before 2.9 the numbers had a digit less for the minor part.
func grown(v int) int {
	if v < 10000 {
		return v/1000*10000 + v%1000
	}
	return v
}

// Version returns the library's version, such as "2.28.9".
func (l *Library) Version() string { return FormatVersion(l.version) }

// VersionCode returns the library's version as a number that grows, such as 22809, or 20408 for 2.4.8.
func (l *Library) VersionCode() int { return l.version }

// VersionSuffix returns what the library's makers have put behind the version's numbers, such as "rc1". It is empty for releases, and
// where nothing tells. The library has no function for it: it is taken from the text that the library logs at its start.
//
// c10d: the fourth part of torch.cuda.nccl.version().
func (l *Library) VersionSuffix() string {
	if l.suffix == nil {
		return ""
	}
	return l.suffix()
}

// suffixIn returns what lies between a version and the version of CUDA in a text that has both, such as the file of a library.
func suffixIn(text []byte, version string) string {
	_, after, found := bytes.Cut(text, []byte("NCCL version "+version))
	if !found {
		return ""
	}
	suffix, _, ended := bytes.Cut(after[:min(len(after), longestSuffix)], []byte("+cuda"))
	if !ended || bytes.ContainsFunc(suffix, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return string(suffix)
}

// longestSuffix is how many bytes behind a version are looked at.
const longestSuffix = 64

// FormatVersion prints a version number of ncclGetVersion or of VersionCode.
func FormatVersion(v int) string {
	v = grown(v)
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
	return l.failed(function, r, c)
}

func (l *Library) failed(function string, r Result, c CommHandle) error {
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
