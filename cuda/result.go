package cuda

import "fmt"

// Result is the driver's CUresult. As an error it is found by errors.Is inside an *Error.
type Result int32

// The results that callers branch on.
const (
	Success                  Result = 0
	InvalidValue             Result = 1
	OutOfMemory              Result = 2
	NoDevice                 Result = 100
	InvalidImage             Result = 200
	InvalidContext           Result = 201
	InvalidPTX               Result = 218
	UnsupportedPTXVersion    Result = 222
	InvalidHandle            Result = 400
	NotFound                 Result = 500
	NotReady                 Result = 600
	PeerAccessAlreadyEnabled Result = 704
	NotSupported             Result = 801
	StreamCaptureUnsupported Result = 900
)

// Error names the result by its number.
func (r Result) Error() string { return fmt.Sprintf("CUDA result %d", int32(r)) }

// Error is a driver call that failed.
type Error struct {
	Func   string // such as "cuMemAlloc"
	Device int    // ordinal, -1 where none is concerned
	Code   Result
	Name   string // such as "CUDA_ERROR_OUT_OF_MEMORY"
	Text   string // the driver's own words
}

// Error says everything on one line.
func (e *Error) Error() string {
	where := ""
	if e.Device >= 0 {
		where = fmt.Sprintf(" on device %d", e.Device)
	}
	return fmt.Sprintf("cuda: %s%s: %s (%d): %s", e.Func, where, e.Name, int32(e.Code), e.Text)
}

// Unwrap returns the Result.
func (e *Error) Unwrap() error { return e.Code }

// check makes an error of a result of function fn.
func (d *Driver) check(fn string, device int, r Result) error {
	if r == Success {
		return nil
	}
	return &Error{Func: fn, Device: device, Code: r, Name: d.GetErrorName(r), Text: d.GetErrorString(r)}
}
