package nccl

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotFound is wrapped by the error of Open where there is no library.
var ErrNotFound = errors.New("no NCCL library")

// Result is ncclResult_t.
type Result int32

// The results.
const (
	Success Result = iota
	UnhandledCudaError
	SystemError
	InternalError
	InvalidArgument
	InvalidUsage
	RemoteError
	InProgress
)

var resultNames = [...]string{"ncclSuccess", "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
	"ncclInvalidArgument", "ncclInvalidUsage", "ncclRemoteError", "ncclInProgress"}

// resultHints say what a result usually means, in the words by which users of PyTorch look for it.
var resultHints = [...]string{
	UnhandledCudaError: "Call to CUDA function failed",
	SystemError:        "System call (e.g. socket, malloc) or external library call failed or device error",
	InternalError:      "Internal check failed",
	InvalidArgument:    "Invalid value for an argument",
	InvalidUsage:       "This usually reflects invalid usage of NCCL library",
	RemoteError:        "A call failed possibly due to a network error or a remote process exiting prematurely",
	InProgress:         "",
}

// String returns the library's name of the result.
func (r Result) String() string {
	if r >= 0 && int(r) < len(resultNames) {
		return resultNames[r]
	}
	return fmt.Sprintf("ncclResult %d", int32(r))
}

// Error is a result other than Success.
type Error struct {
	Function string
	Result   Result
	Text     string // the library's, for the result
	Last     string // the library's last error, empty if it has none to tell
	Version  string
	Path     string
}

// Error has everything on one line: the function, the library's text and version, the result with its usual meaning, the last error.
//
// c10d has the same parts on three lines.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "nccl: %s: NCCL error: %s, NCCL version %s; %v", e.Function, e.Text, e.Version, e.Result)
	if e.Result > 0 && int(e.Result) < len(resultHints) && resultHints[e.Result] != "" {
		fmt.Fprintf(&b, ": %s", resultHints[e.Result])
	}
	if e.Last != "" {
		fmt.Fprintf(&b, "; Last error: %s", e.Last)
	}
	fmt.Fprintf(&b, " (result %d, %s)", int32(e.Result), e.Path)
	return b.String()
}

// TooOldError is the error of a function that the library does not have.
type TooOldError struct {
	Function      string
	Needs         int // the version, 0 if no version is known to have it
	Version, Path string
}

// Error says which version is needed.
func (e *TooOldError) Error() string {
	if e.Needs == 0 {
		return fmt.Sprintf("nccl: %s is missing (NCCL version %s, %s)", e.Function, e.Version, e.Path)
	}
	return fmt.Sprintf("nccl: %s needs NCCL %s or newer (NCCL version %s, %s)", e.Function, FormatVersion(e.Needs), e.Version, e.Path)
}
