package torch

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/store"
)

// Rendezvous is where a group's ranks meet in the store, as PyTorch names it.
type Rendezvous struct {
	Version backend.Version
	Store   store.Store // of the job, with the prefix that PyTorch gives to all of it
	Name    string      // of the group: "0" is the default group, others count from 1 or are hashes
	Number  int         // of the groups that the job has made, this one included, from 1
	Rank    int
	Job     int // ranks of the default group
}

// Device is the part of the store that the group's backend for a kind of device has, from PyTorch 2.1 on: "cpu" or "cuda".
func (p *Rendezvous) Device(kind string) store.Store {
	if p.Name == defaultName {
		return store.NewPrefix("0//"+kind+"/", p.Store)
	}
	return store.NewPrefix("0//"+p.Name+"//"+kind+"/", p.Store)
}

// defaultName is the default group's name.
const defaultName = "0"

// Context is the part of the store in which the ranks of one of the contexts of a Gloo group link.
func (p *Rendezvous) Context(number int) store.Store {
	if meetsInStore(p.Version) {
		return store.NewPrefix(fmt.Sprintf("%s/%d", p.Name, number), p.Store)
	}
	return store.NewPrefix(strconv.Itoa(number), p.Device("cpu"))
}

// meetsInStore reports whether all ranks of a job meet in the store when a group has formed.
func meetsInStore(v backend.Version) bool { return !v.From(2, 1) }

// barrierPause is between looks at the counter of Meet.
const barrierPause = 10 * time.Millisecond

// Meet is called when a group has formed. In PyTorch 1.13 all ranks of the job then count up one key, and wait until it has counted
// all. Later versions do nothing.
func (p *Rendezvous) Meet(ctx context.Context) error {
	if !meetsInStore(p.Version) {
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
	if !meetsInStore(p.Version) {
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
