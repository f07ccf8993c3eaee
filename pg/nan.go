package pg

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// nanFound says where the first NaN is.
type nanFound struct {
	tensor, index int
	dtype         colligo.DType
}

// Error says it on one line.
func (e *nanFound) Error() string {
	return fmt.Sprintf("NaN in %v tensor %d at element %d", e.dtype, e.tensor, e.index)
}

// refuseNaN fails the group if what a call sends holds a NaN. Ranks that only receive send none.
func (g *Group) refuseNaN(ctx context.Context, r *request) error {
	if g.config.Watch.NaNCheck != On || r.rec.own || !r.dtype.Float() && !r.dtype.Complex() || r.coll == plan.Barrier {
		return nil
	}
	var found *nanFound
	var err error
	if r.device.Kind == colligo.CPU {
		found = r.findNaN()
	} else {
		found, err = g.findNaNOnDevice(ctx, r)
	}
	if err == nil && found != nil {
		err = found
	}
	if err == nil {
		return nil
	}
	g.mu.Lock()
	next := g.seq
	if r.coll != plan.Send {
		next = after(next, true)
	}
	g.mu.Unlock()
	err = g.explain(r, next, err, false)
	g.fail(err, true)
	return err
}

// findNaN searches memory of this process.
func (r *request) findNaN() *nanFound {
	if r.members != nil {
		return r.findNaNInMembers()
	}
	if r.ins == nil {
		i := firstNaN(r.in, r.dtype)
		if i < 0 {
			return nil
		}
		tensor := 0
		for tensor < len(r.keep[0])-1 && i >= r.keep[0][tensor].Len() {
			i -= r.keep[0][tensor].Len()
			tensor++
		}
		return &nanFound{tensor, i, r.dtype}
	}
	for n, t := range r.ins {
		if i := firstNaN(gatherTensors([]colligo.Tensor{t}), r.dtype); i >= 0 {
			return &nanFound{n, i, r.dtype}
		}
	}
	return nil
}

// findNaNInMembers is findNaN of an operation that stands for several.
func (r *request) findNaNInMembers() *nanFound {
	for n := range r.members {
		m := &r.members[n]
		if found := (&request{dtype: r.dtype, in: m.in, ins: m.ins}).findNaN(); found != nil {
			return &nanFound{n, found.index, r.dtype}
		}
	}
	return nil
}

func (g *Group) findNaNOnDevice(ctx context.Context, r *request) (*nanFound, error) {
	in := r.ins
	if in == nil && r.src.Valid() {
		in = []colligo.Tensor{r.src}
	}
	if len(in) == 0 {
		return nil, nil
	}
	b, err := BackendOf(ctx, g, r.device)
	if err != nil {
		return nil, err
	}
	reader, ok := b.(backend.Reader)
	if !ok {
		g.log.Debug("the backend finds no NaN", "group", g.name, "rank", g.rank, "device", r.device.String())
		return nil, nil
	}
	for n, t := range in {
		if i, err := readNaN(ctx, reader, t); i >= 0 || err != nil {
			return &nanFound{n, i, r.dtype}, err
		}
	}
	return nil, nil
}

// readNaN returns the index of the first NaN of a tensor on a device, -1 if there is none.
func readNaN(ctx context.Context, from backend.Reader, t colligo.Tensor) (int, error) {
	found, before := -1, 0
	err := from.Read(ctx, t, func(piece []byte) bool {
		if i := firstNaN(piece, t.DType()); i >= 0 {
			found = before + i
		}
		before += len(piece) / t.DType().Size()
		return found < 0
	})
	return found, err
}

// firstNaN returns the index of the first element that is NaN, -1 if there is none. In a complex element either part counts.
func firstNaN(b []byte, d colligo.DType) int {
	size := d.Real().Size()
	i := -1
	switch d.Real() {
	case colligo.Float64:
		i = firstAbove(b, 8, 0x7ff0_0000_0000_0000)
	case colligo.Float32:
		i = firstAbove(b, 4, 0x7f80_0000)
	case colligo.Float16:
		i = firstAbove(b, 2, 0x7c00)
	case colligo.BFloat16:
		i = firstAbove(b, 2, 0x7f80)
	case colligo.Float8E5M2:
		i = firstAbove(b, 1, 0x7c)
	case colligo.Float8E4M3FN:
		i = firstAbove(b, 1, 0x7e)
	}
	if i < 0 {
		return -1
	}
	return i * size / d.Size()
}

// firstAbove returns the index of the first number whose bits without the sign are above those of infinity, or where the
// type has none, of the largest number.
func firstAbove(b []byte, size int, most uint64) int {
	sign := uint64(1) << (8*size - 1)
	for i := 0; i+size <= len(b); i += size {
		var v uint64
		switch size {
		case 8:
			v = binary.NativeEndian.Uint64(b[i:])
		case 4:
			v = uint64(binary.NativeEndian.Uint32(b[i:]))
		case 2:
			v = uint64(binary.NativeEndian.Uint16(b[i:]))
		default:
			v = uint64(b[i])
		}
		if v&^sign > most {
			return i / size
		}
	}
	return -1
}
