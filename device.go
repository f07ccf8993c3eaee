package colligo

import "fmt"

// DeviceKind is the kind of memory that a tensor lies in.
type DeviceKind uint8

// The kinds of device.
const (
	CPU  DeviceKind = iota // memory of this process
	CUDA                   // memory of an NVIDIA GPU
)

// String returns "cpu" or "cuda".
func (k DeviceKind) String() string {
	switch k {
	case CPU:
		return "cpu"
	case CUDA:
		return "cuda"
	}
	return fmt.Sprintf("device(%d)", uint8(k))
}

// Device is one memory: the CPU's, or that of the GPU with the given ordinal. The zero value is the CPU.
type Device struct {
	Kind  DeviceKind
	Index int // ordinal among the devices of its kind; 0 for the CPU
}

// String returns "cpu" or, for example, "cuda:1".
func (d Device) String() string {
	if d.Kind == CPU {
		return "cpu"
	}
	return fmt.Sprintf("%v:%d", d.Kind, d.Index)
}
