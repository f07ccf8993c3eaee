package symheap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg/backend"
)

// Ranks leave their peers in other processes in two steps. CUDA does not define the state of memory that is freed while another
// process has it mapped by IPC:
//
//  1. A rank whose device is idle counts itself at a key of the group's store, and waits until all have.
//  2. It unmaps its peers' memory, counts itself once more, and waits until all have done that, too.
//
// Only then it frees its heap, and Close returns, after which the program may free the memory that it had registered. Ranks
// that share a process count one by one, and a mapping that they share stays until the last of them closes it. So when all
// have counted twice, no process has anything mapped.
//
// Neither wait is longer than a limit, for dead ranks never come. A rank that does not see all others in the first step
// unmaps when it frees, and says that no rank need wait for it. After a failure the limit is longer, and both steps share it.

// gaveUp is added to the count by a rank that waits no longer. It is more than ranks count.
const gaveUp = 1 << 32

// Unmap waits until the peers' devices are idle, unmaps their memory, and waits until they have unmapped this rank's. A peer
// that comes late to a group's peaceful end loses nothing. It writes into a heap only in an operation in which the heap's rank
// takes part. After a failure its kernels may still write here, until they see the abort flag. The limit of a wait is farewell, and longer
// by draining once the group has failed.
func (h *Heap) Unmap(t cuda.Thread, farewell, draining time.Duration, peaceful func() bool) error {
	if !slices.ContainsFunc(h.peers, func(m mapping) bool { return m.opened }) {
		return nil
	}
	limit := func() time.Duration {
		if peaceful() {
			return farewell
		}
		return farewell + draining
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell+draining)
	defer cancel()
	n, err := h.count(ctx, h.size, func() time.Duration { return limit() * 9 / 10 }) // the rest is for saying that they did not come
	if err == nil && n%gaveUp < int64(h.size) {
		n, err = h.group.Count(ctx, h.leaving, gaveUp)
		n -= gaveUp // the last may have come meanwhile
	}
	switch {
	case err != nil && ctx.Err() == nil && peaceful():
		return fmt.Errorf("telling the peers that rank %d leaves: %w", h.rank, err)
	case err != nil || n < int64(h.size) || n >= gaveUp:
		return nil
	}
	err = h.closeOpened(t)
	if peaceful() {
		ctx, cancel = context.WithTimeout(context.Background(), farewell)
		defer cancel()
	}
	// An error is none: the rank that keeps the store takes it along as soon as all have counted.
	_, _ = h.count(ctx, 2*h.size, limit)
	return err
}

// count adds this rank to those that leave, and waits for some time until there are so many. It returns how many there are. It asks again
// and again how long it may wait, for the group may fail meanwhile.
func (h *Heap) count(ctx context.Context, until int, limit func() time.Duration) (n int64, err error) {
	begun := time.Now()
	n, err = h.group.Count(ctx, h.leaving, 1)
	for err == nil && n%gaveUp < int64(until) && time.Since(begun) < limit() {
		time.Sleep(time.Millisecond)
		n, err = h.group.Count(ctx, h.leaving, 0)
	}
	return n, err
}

// closeOpened unmaps the memory of other processes, registered memory as well.
func (h *Heap) closeOpened(t cuda.Thread) error {
	errs := []error{h.closeWindows(t)}
	for q := range h.peers {
		if m := &h.peers[q]; m.opened {
			errs = append(errs, t.CloseIPC(m.at))
			m.opened = false
		}
	}
	return errors.Join(errs...)
}

// closeAll undoes Meet, and unmaps registered memory.
func (h *Heap) closeAll(t cuda.Thread) error {
	errs := []error{h.closeOpened(t)}
	for _, m := range h.peers {
		if m.device != nil {
			errs = append(errs, m.device.Close())
		}
	}
	h.peers = nil
	return errors.Join(errs...)
}

// GiveUp ends a heap that some rank could not map, on all ranks together. No rank has used another's.
func (h *Heap) GiveUp(ctx context.Context, t cuda.Thread) error {
	if err := h.closeAll(t); err != nil {
		return err
	}
	if err := backend.Barrier(ctx, h.group); err != nil { // a heap is given back when no rank has it mapped
		return fmt.Errorf("giving up the heaps: %w", err)
	}
	return h.free(t)
}

// Free gives the heap back, and unmaps the memory that Unmap has left mapped.
func (h *Heap) Free(t cuda.Thread) error { return errors.Join(h.closeAll(t), h.free(t)) }
