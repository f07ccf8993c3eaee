package peer

import (
	"context"
	"errors"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// engines are the streams and events of the algorithms that use copy engines. They are made at first use.
type engines struct {
	copy, signal, gate, fold streamorder.Stream

	folded [ringLanes + 1]cuda.Event // of each lane's last fold, and of a short end's
	around bool                      // all slices of the last ring came from the rank before
}

// streams returns the four streams, which are made and warmed alike.
func (e *engines) streams() []*streamorder.Stream {
	return []*streamorder.Stream{&e.copy, &e.signal, &e.gate, &e.fold}
}

// makeEngines makes the streams and events, on all ranks together.
func (x *launcher) makeEngines(ctx context.Context, t cuda.Thread) error {
	if x.engines.fold.Made {
		return nil
	}
	return x.together(ctx, func() error {
		return streamorder.Relaxed(t, func() error {
			if err := x.engines.make(t, x.order); err != nil || !x.serial {
				return err
			}
			return x.warm(t, x.engines.streams())
		})
	})
}

// spareAt is where words lie among a rank's counters that nothing else uses: one, and one for each stream that is warmed at once.
const spareAt = 36

// warm readies at most six new streams, where ranks share a device or launches wait for their kernels.
func (x *launcher) warm(t cuda.Thread, streams []*streamorder.Stream) error {
	none := &ptx.FillArgs{}
	return streamorder.Warm(t, streams, x.heap.Address(x.layout.State+spareAt), func(_ int, s cuda.Stream) error {
		return t.Launch(x.code.move(fillLines).Function, cuda.Grid{Blocks: 1, Threads: leastThreads}, unsafe.Pointer(none), s)
	})
}

func (e *engines) make(t cuda.Thread, order *streamorder.Order) error {
	var errs []error
	for i := range e.folded {
		var err error
		e.folded[i], err = t.NewEvent(false)
		errs = append(errs, err)
	}
	for _, s := range e.streams() {
		errs = append(errs, order.Make(t, s))
	}
	return errors.Join(errs...)
}

// free gives the events back; the order gives back the streams.
func (e *engines) free(t cuda.Thread) error {
	var errs []error
	for _, v := range e.folded {
		if v != 0 {
			errs = append(errs, t.DestroyEvent(v))
		}
	}
	return errors.Join(errs...)
}

// late returns the rank before this one if a ring waits for it: nothing of it has arrived. Of an exchange in rotation the
// words do not tell.
func (x *launcher) late(w *words) []int {
	if !x.engines.around {
		return nil
	}
	for slot := range symheap.RingSlots {
		if _, arrived, _ := x.layout.RingAt(x.rank, slot); w.get(arrived) != 0 {
			return nil
		}
	}
	return []int{x.before()}
}
