package bootstrap

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// keys are the keys that a rank has put into the store to form a group.
type keys struct {
	mu   sync.Mutex
	set  []string
	late []string // not needed any more, but the store was too slow to remove them
}

// note remembers a key that this rank has set.
func (k *keys) note(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.set, key) {
		k.set = append(k.set, key)
	}
}

func (k *keys) list() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.set)
}

// take returns the keys and forgets them.
func (k *keys) take() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.set
	k.set = nil
	return all
}

// keepLate remembers keys that the store has not removed.
func (k *keys) keepLate(all []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.late = append(k.late, all...)
}

// takeLate returns those keys and forgets them.
func (k *keys) takeLate() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := k.late
	k.late = nil
	return all
}

// rendezvous is where the links of a group's ranks find one another.
type rendezvous struct{ f *Formation }

var _ transport.Rendezvous = (*rendezvous)(nil)

// Set implements transport.Rendezvous.
func (r *rendezvous) Set(ctx context.Context, key string, value []byte) error {
	r.f.keys.note(key)
	return r.f.Store.Set(ctx, key, value)
}

// Get implements transport.Rendezvous. It also ends when another rank has given up.
func (r *rendezvous) Get(ctx context.Context, key string) ([]byte, error) {
	values, err := r.f.read(ctx, key)
	if err != nil {
		return nil, err
	}
	return values[0], nil
}

// tidyLimit bounds how long forming or leaving a group may wait for the store to remove keys.
const tidyLimit = time.Second

// tidy removes this rank's keys of the group, and more, from the store.
func (f *Formation) tidy(more ...string) { f.remove(append(f.keys.take(), more...)) }

// remove removes keys from the store. It leaves those to Depart that a slow store has not removed in time.
func (f *Formation) remove(all []string) {
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tidyLimit)
	defer cancel()
	for i, key := range all {
		if _, err := f.Store.Delete(ctx, key); err != nil {
			f.keys.keepLate(all[i:])
			f.log.Debug("key left in the store", "group", f.Name, "rank", f.Rank, "key", key, "error", err)
			return
		}
	}
}

// Formed is called when all ranks are linked, so that no rank needs the keys any more that led to the links. The default
// group's keys stay while it is open. They keep out a second process of the same rank, and keep a second job from the store.
func (f *Formation) Formed() {
	if f.size() > 1 && !f.Default {
		f.tidy()
	}
}

// Depart is called when this rank's part of the group has ended. It leaves a store that outlives the job as it was found.
// The first rank that has not died is the cleaner: it removes what dead ranks have left. In any store it removes once more what the store
// was too slow for when the group formed.
//
// The peers in lost have ended the group by their loss, though their own link may not have told yet. The name of the mesh,
// medium, is in the keys of its addresses; it is empty if there is none.
func (f *Formation) Depart(lost []int, medium string) {
	late := f.keys.takeLate()
	if !f.job.lasting {
		f.remove(late)
		return
	}
	var dead []string
	cleaner := true
	for peer := range f.size() {
		gone, died := f.Departed.Has(peer)
		if slices.Contains(lost, peer) {
			gone, died = true, true
		}
		if died && f.Default && medium != "" {
			dead = append(dead, rankKey(peer), fmt.Sprintf("%s/%d", medium, peer)) // as every medium names its address
		}
		if died && peer == 0 && f.Epochs() > 0 {
			dead = append(dead, membersKey) // which a later job would take for its own
		}
		cleaner = cleaner && (gone || peer >= f.Rank)
	}
	if !cleaner {
		dead = nil
	} else if f.Default {
		dead = append(dead, gaveUpKey) // of attempts before this one
	}
	f.tidy(append(dead, late...)...)
}
