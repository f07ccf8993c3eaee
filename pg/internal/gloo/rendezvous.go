package gloo

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/colligo-go/colligo/store"
)

// Rendezvous is where a group's ranks meet in the store, as PyTorch names it.
type Rendezvous struct {
	Version Version
	Store   store.Store // of the job, with the prefix that PyTorch gives to all of it
	Name    string      // of the group: "0" is the default group, others count from 1 or are hashes
	Number  int         // of the groups that the job has made, this one included, from 1
	Rank    int
	Job     int // ranks of the default group
}

// Context is the part of the store in which the ranks of one of the group's contexts link.
func (p *Rendezvous) Context(number int) store.Store {
	switch {
	case !p.Version.From(2, 1):
		return store.NewPrefix(fmt.Sprintf("%s/%d", p.Name, number), p.Store)
	case p.Name == "0":
		return store.NewPrefix(fmt.Sprintf("0//cpu//%d", number), p.Store)
	}
	return store.NewPrefix(fmt.Sprintf("0//%s//cpu//%d", p.Name, number), p.Store)
}

// barrierPause is between looks at the counter of Meet.
const barrierPause = 10 * time.Millisecond

// Meet is called when a group has formed. In PyTorch 1.13 all ranks of the job then count up one key, and wait until it has counted
// all. Later versions do nothing.
func (p *Rendezvous) Meet(ctx context.Context) error {
	if !p.Version.storeBarrier() {
		return nil
	}
	key := fmt.Sprintf("store_based_barrier_key:%d", p.Number)
	for delta := int64(1); ; delta = 0 {
		n, err := p.Store.Add(ctx, key, delta)
		if err != nil {
			return fmt.Errorf("the barrier in the store: %w", err)
		}
		if n >= int64(p.Job) {
			return nil
		}
		select {
		case <-time.After(barrierPause):
		case <-ctx.Done():
			return fmt.Errorf("the barrier in the store, to which %d of %d ranks have come: %w", n, p.Job, context.Cause(ctx))
		}
	}
}

// Agree is how members of PyTorch 1.13 agree on the number of their first operation, which only their logs show.
func (p *Rendezvous) Agree(ctx context.Context) error {
	if !p.Version.storeBarrier() {
		return nil
	}
	s := store.NewPrefix(p.Name, p.Store)
	const key = "SEQ_NUM_STORE_KEY"
	if p.Rank != 0 {
		_, err := s.Get(ctx, key)
		return err
	}
	return s.Set(ctx, key, binary.LittleEndian.AppendUint64(nil, uint64(1+rand.Int32N(1<<30))))
}
