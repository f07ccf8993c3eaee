package peer

import (
	"context"
	"errors"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
)

// engines are the streams and events of the algorithms that use copy engines. They are made at first use.
type engines struct {
	copy, signal, gate, fold streamorder.Stream

	folded [ringLanes + 1]cuda.Event // of each lane's last fold, and of a short end's
	around bool                      // all slices of the last ring came from the rank before
}

// makeEngines makes the streams and events, on all ranks together.
func (x *launcher) makeEngines(ctx context.Context, t cuda.Thread) error {
	if x.engines.fold.Made {
		return nil
	}
	return x.together(ctx, func() error {
		return streamorder.Relaxed(t, func() error { return x.engines.make(t, x.order) })
	})
}

func (e *engines) make(t cuda.Thread, order *streamorder.Order) error {
	var errs []error
	for i := range e.folded {
		var err error
		e.folded[i], err = t.NewEvent(false)
		errs = append(errs, err)
	}
	for _, s := range []*streamorder.Stream{&e.copy, &e.signal, &e.gate, &e.fold} {
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
