package peer

import (
	"errors"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	seam "github.com/colligo-go/colligo/pg/backend"
)

// mostKnown is how many stretches of memory are remembered as good.
const mostKnown = 32

// known are stretches of memory that the driver has said to be this device's, or the host's. A kernel that touches
// anything else ends the whole process's use of the device, so tensors in memory that was never seen are looked up: some
// microseconds once for an allocation, some nanoseconds from then on. Memory that was freed since is not noticed.
type known struct {
	stretches [mostKnown]stretch
	last      int // found last
	next      int // to be replaced
}

type stretch struct{ from, to cuda.Pointer }

func (k *known) has(from, to cuda.Pointer) bool {
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

func (k *known) add(s stretch) {
	k.stretches[k.next] = s
	k.last, k.next = k.next, (k.next+1)%mostKnown
}

// checkCall refuses tensors that the device cannot reach. The caller holds b.mu.
func (b *backend) checkCall(c *seam.Call) error {
	if err := first(b.checkTensor("input", &c.In), b.checkTensor("output", &c.Out)); err != nil {
		return err
	}
	for i := range c.Ins {
		if err := b.checkTensor("input", &c.Ins[i]); err != nil {
			return err
		}
	}
	for i := range c.Outs {
		if err := b.checkTensor("output", &c.Outs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (b *backend) checkTensor(role string, t *colligo.Tensor) error {
	if !t.Valid() || t.Size() == 0 {
		return nil
	}
	from := cuda.Pointer(t.Addr())
	to := from + cuda.Pointer(t.Size())
	if b.known.has(from, to) {
		return nil
	}
	s, err := b.stretchAt(from, to)
	if err != nil {
		return fmt.Errorf("the %s %v at %#x (%d bytes): %w", role, *t, uint64(from), t.Size(), err)
	}
	b.known.add(s)
	return nil
}

// stretchAt asks the driver for the memory from one address to another, which may be several allocations mapped one
// behind the other.
func (b *backend) stretchAt(from, to cuda.Pointer) (s stretch, err error) {
	d := b.options.Driver
	for at := from; at < to; at = s.to {
		kind, err := d.PointerAttribute(cuda.PointerMemoryType, at)
		unknown := errors.Is(err, cuda.InvalidValue)
		if err != nil && !unknown {
			return s, err
		}
		on := uint64(b.device.Index())
		if kind == cuda.MemoryTypeDevice && !unknown {
			if on, err = d.PointerAttribute(cuda.PointerDevice, at); err != nil {
				return s, err
			}
		}
		switch elsewhere := int(on) != b.device.Index(); {
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
