package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/colligo-go/colligo/cuda"
)

// Ranks leave their peers in other processes in two steps, for CUDA leaves open what becomes of memory that is freed while
// another process has it mapped by IPC:
//
//  1. A rank whose device is idle counts itself at a key of the group's store, and waits until all have.
//  2. It unmaps what it has of its peers, counts itself once more, and waits until all have done that, too.
//
// Only then it frees its symmetric heap, and Close returns to who may free what was registered. Ranks that share a process count one
// by one, and a mapping that they share stays until the last of them closes it: so when all have counted twice, no process
// has anything mapped.
//
// Neither wait is longer than farewell, for the dead never come. Who does not see all ranks in the first step unmaps when it
// frees, and says that nobody need wait for it in the second. After a failure both steps have one farewell together.

// farewell bounds how long a rank that closes waits for its peers in other processes.
const farewell = time.Second

// gaveUp is added to the count by who waits no longer: above all that ranks count.
const gaveUp = 1 << 32

// leavePeers waits until the peers' devices are idle, unmaps their memory, and waits until they have unmapped this rank's. A
// peer that comes late to a group's peaceful end loses nothing: it writes into no symmetric heap but for an operation that this rank
// takes part in. After a failure its kernels may still write here, until they see the abort flag.
func (b *backend) leavePeers(t cuda.Thread) error {
	if !slices.ContainsFunc(b.peers, func(m mapping) bool { return m.opened }) {
		return nil
	}
	limit := b.options.farewell
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	n, err := b.count(ctx, b.size, limit-limit/10) // the rest is for saying that they did not come
	if err == nil && n%gaveUp < int64(b.size) {
		n, err = b.group.Store().Add(ctx, b.leaving, gaveUp)
		n -= gaveUp // the last may have come meanwhile
	}
	switch {
	case err != nil && ctx.Err() == nil && b.peaceful():
		return fmt.Errorf("telling the peers that rank %d leaves: %w", b.rank, err)
	case err != nil || n < int64(b.size) || n >= gaveUp:
		return nil
	}
	err = b.unmapOthers(t)
	if b.peaceful() {
		ctx, cancel = context.WithTimeout(context.Background(), limit)
		defer cancel()
	}
	// An error is none: the rank that keeps the store takes it along as soon as all have counted.
	_, _ = b.count(ctx, 2*b.size, limit)
	return err
}

// count adds this rank to those that leave, and waits for some time until there are so many. It returns how many there are.
func (b *backend) count(ctx context.Context, until int, limit time.Duration) (n int64, err error) {
	end := time.Now().Add(limit)
	n, err = b.group.Store().Add(ctx, b.leaving, 1)
	for err == nil && n%gaveUp < int64(until) && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
		n, err = b.group.Store().Add(ctx, b.leaving, 0)
	}
	return n, err
}

// unmapOthers closes what is mapped of other processes' memory, registered memory as well.
func (b *backend) unmapOthers(t cuda.Thread) error {
	errs := []error{b.closeWindows(t)}
	for q := range b.peers {
		if m := &b.peers[q]; m.opened {
			errs = append(errs, t.CloseIPC(m.at))
			m.opened = false
		}
	}
	return errors.Join(errs...)
}

// unmap undoes mapPeer and closes what is registered.
func (b *backend) unmap(t cuda.Thread) error {
	errs := []error{b.unmapOthers(t)}
	for _, m := range b.peers {
		if m.device != nil {
			errs = append(errs, m.device.Close())
		}
	}
	b.peers = nil
	return errors.Join(errs...)
}
