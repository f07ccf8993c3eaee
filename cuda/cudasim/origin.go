package cudasim

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/internal/callers"
)

// An origin says where an operation comes from: its name, its device and stream, and the stack of the call that enqueued it.
type origin struct {
	name    string
	process int
	device  int // -1 for hosts
	stream  cuda.Stream
	pcs     []uintptr
	line    string  // of site, once it was asked for
	launch  *origin // of the graph that the operation is part of
	writes  uint64  // by the operation, those of a graph's parts included
}

// wrote counts a write of the operation.
//
//go:norace
func (o *origin) wrote() {
	o.writes++
	if o.launch != nil {
		o.launch.writes++
	}
}

// stackDepth is how many return addresses are kept, the package's own among them.
const stackDepth = 34

// callStack returns the return addresses on the goroutine's stack. A report leaves out the functions of the package itself.
func callStack() []uintptr {
	var pcs [stackDepth]uintptr
	n := callers.Fill(pcs[:])
	return append([]uintptr(nil), pcs[:n]...)
}

func (o *origin) String() string {
	if o.device < 0 {
		return fmt.Sprintf("%s of process %d", o.name, o.process)
	}
	return fmt.Sprintf("%s on device %d, stream %#x of process %d", o.name, o.device, uintptr(o.stream), o.process)
}

// site tells origins apart that come from different lines.
func (o *origin) site() string {
	if o.line == "" {
		o.line = fmt.Sprint(o.name, o.pcs)
	}
	return o.line
}

var ownPrefix = reflect.TypeFor[Sim]().PkgPath() + "."

// stack prints a stack, one frame a line, without the frames of this package and of the runtime.
func stack(pcs []uintptr, indent string) string {
	if len(pcs) == 0 {
		return ""
	}
	var b strings.Builder
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, ownPrefix) && !strings.HasPrefix(f.Function, "runtime.") {
			fmt.Fprintf(&b, "%s%s\n%s\t%s:%d\n", indent, f.Function, indent, f.File, f.Line)
		}
		if !more {
			return b.String()
		}
	}
}
