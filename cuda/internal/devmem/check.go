package devmem

import (
	"errors"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg/backend"
)

// mostKnown is how many stretches of memory are remembered as good.
const mostKnown = 32

// Checker knows stretches of memory that the driver has said to be this device's, or the host's. Tensors in memory that was
// never seen are looked up: some microseconds once for an allocation, some nanoseconds from then on. Memory that was freed
// since is not noticed. A Checker has no lock.
type Checker struct {
	driver    *cuda.Driver
	device    int
	stretches [mostKnown]stretch
	last      int // found last
	next      int // to be replaced
}

type stretch struct{ from, to cuda.Pointer }

// NewChecker returns the checker of a device.
func NewChecker(driver *cuda.Driver, d *cuda.Device) *Checker {
	return &Checker{driver: driver, device: d.Index()}
}

func (k *Checker) has(from, to cuda.Pointer) bool {
	if s := &k.stretches[k.last]; from >= s.from && to <= s.to {
		return true
	}
	for i := range k.stretches {
		if s := &k.stretches[i]; from >= s.from && to <= s.to {
			k.last = i
			return true
		}
	}
	return false
}

func (k *Checker) add(s stretch) {
	k.stretches[k.next] = s
	k.last, k.next = k.next, (k.next+1)%mostKnown
}

// Call refuses a call with a tensor that the device cannot reach.
func (k *Checker) Call(c *backend.Call) error {
	if err := k.Tensor("input", &c.In); err != nil {
		return err
	}
	if c.Out != c.In {
		if err := k.Tensor("output", &c.Out); err != nil {
			return err
		}
	}
	for i := range c.Ins {
		if err := k.Tensor("input", &c.Ins[i]); err != nil {
			return err
		}
	}
	for i := range c.Outs {
		if err := k.Tensor("output", &c.Outs[i]); err != nil {
			return err
		}
	}
	return nil
}

// Tensor refuses a tensor that the device cannot reach. Its role stands in the error.
func (k *Checker) Tensor(role string, t *colligo.Tensor) error {
	if !t.Valid() || t.Size() == 0 {
		return nil
	}
	from := cuda.Pointer(t.Addr())
	to := from + cuda.Pointer(t.Size())
	if k.has(from, to) {
		return nil
	}
	s, err := k.stretchAt(from, to)
	if err != nil {
		return fmt.Errorf("the %s %v at %#x (%d bytes): %w", role, *t, uint64(from), t.Size(), err)
	}
	k.add(s)
	return nil
}

// stretchAt asks the driver for the memory from one address to another, which may be several allocations mapped one
// behind the other.
func (k *Checker) stretchAt(from, to cuda.Pointer) (s stretch, err error) {
	d := k.driver
	for at := from; at < to; at = s.to {
		kind, err := d.PointerAttribute(cuda.PointerMemoryType, at)
		unknown := errors.Is(err, cuda.InvalidValue)
		if err != nil && !unknown {
			return s, err
		}
		on := uint64(k.device)
		if kind == cuda.MemoryTypeDevice && !unknown {
			if on, err = d.PointerAttribute(cuda.PointerDevice, at); err != nil {
				return s, err
			}
		}
		switch elsewhere := int(on) != k.device; {
		case at > from && (unknown || elsewhere):
			return s, fmt.Errorf("the memory ends after %d bytes", at-from)
		case unknown:
			return s, errors.New("no device memory is there")
		case elsewhere:
			return s, fmt.Errorf("the memory is on device %d", on)
		}
		start, err := d.PointerAttribute(cuda.PointerRangeStart, at)
		size, err2 := d.PointerAttribute(cuda.PointerRangeSize, at)
		if err != nil || err2 != nil || start+size <= uint64(at) {
			return stretch{from, to}, nil // memory of a kind that tells no range
		}
		if at == from {
			s.from = cuda.Pointer(start)
		}
		s.to = cuda.Pointer(start + size)
	}
	return s, nil
}

// Address returns where a tensor begins. A tensor that a rank does not have is invalid, and begins at 0.
func Address(t colligo.Tensor) cuda.Pointer {
	if !t.Valid() {
		return 0
	}
	return cuda.Pointer(t.Addr())
}
