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

// resultHints say what a result usually means, for readers who do not know the library.
var resultHints = [...]string{
	UnhandledCudaError: "a call of CUDA failed",
	SystemError:        "a call of the operating system or of the network failed",
	InternalError:      "a check inside the library failed: its own fault, or memory that was overwritten",
	InvalidArgument:    "an argument has no value that the function takes",
	InvalidUsage:       "the calls of the ranks do not fit together, or one communicator is used for two devices",
	RemoteError:        "a peer has failed, or has ended",
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

// Error has everything on one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "nccl: %s: %v (%d): %s", e.Function, e.Result, int32(e.Result), e.Text)
	if e.Result > 0 && int(e.Result) < len(resultHints) && resultHints[e.Result] != "" {
		fmt.Fprintf(&b, "; %s", resultHints[e.Result])
	}
	if e.Last != "" {
		fmt.Fprintf(&b, "; last error: %s", e.Last)
	}
	fmt.Fprintf(&b, " (NCCL version %s, %s)", e.Version, e.Path)
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
