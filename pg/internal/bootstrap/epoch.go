package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/store"
)

// tries counts the tries to shrink a group.
type tries struct {
	mu       sync.Mutex
	epoch    int
	expected []int // ranks of the default group that went on at the last try; nil before
}

// Epochs returns how often the group, and those it was shrunk from, have been shrunk.
func (f *Formation) Epochs() int {
	f.tries.mu.Lock()
	defer f.tries.mu.Unlock()
	return f.tries.epoch
}

// Remaining returns the ranks that are to go on, by their numbers in the default group.
func (f *Formation) Remaining(exclude []int) ([]int, error) {
	for _, r := range exclude {
		if r < 0 || r >= f.size() {
			return nil, fmt.Errorf("rank %d of %d is excluded", r, f.size())
		}
		if r == f.Rank {
			return nil, fmt.Errorf("rank %d excludes itself", r)
		}
	}
	f.tries.mu.Lock()
	defer f.tries.mu.Unlock()
	before := f.tries.expected
	if before == nil {
		before = f.Ranks
	}
	var rest []int
	for _, global := range before {
		if !slices.Contains(exclude, f.find(global)) {
			rest = append(rest, global)
		}
	}
	return rest, nil
}

// find returns the rank in the group of a rank of the default group.
func (f *Formation) find(global int) int {
	if r := slices.Index(f.Ranks, global); r >= 0 {
		return r
	}
	return colligo.NoRank
}

// Epoch is one try to form a group of the ranks that are left of another one. The ranks meet in the new group's part of the
// store:
//
//  1. Each rank sets the key of its own presence.
//  2. It looks which ranks have come, until all expected ranks have come or departed, or its patience ends.
//  3. It proposes the ranks that have come as the members. The first proposal holds for all.
type Epoch struct {
	Name     string // of the new group
	old      *Formation
	epoch    int
	departed []int // from the old group, when the epoch began
	store    store.Store
}

// NextEpoch begins one more try.
func (f *Formation) NextEpoch() *Epoch {
	f.tries.mu.Lock()
	f.tries.epoch++
	n := f.tries.epoch
	f.tries.mu.Unlock()
	name := fmt.Sprintf("%s@%d", f.Root, n)
	return &Epoch{Name: name, old: f, epoch: n, departed: f.Departed.peers(), store: store.NewPrefix(storePrefix(name), f.job.store)}
}

// Member returns this rank's part in the new group, of which it must be a member.
func (e *Epoch) Member(members []int) Member {
	return Member{Name: e.Name, Rank: slices.Index(members, e.old.self()), Ranks: members, Tag: e.old.Tag, Root: e.old.Root, Epoch: e.epoch}
}

// self is this rank's number in the default group.
func (f *Formation) self() int { return f.Ranks[f.Rank] }

// WhenLost calls lost with each rank of the old group that is among the members and departs, until stop. Ranks that had
// departed before the epoch began are left out: they came nevertheless.
func (e *Epoch) WhenLost(members []int, lost func(peer int)) (stop func()) {
	return e.old.Departed.Watch(func(peer int) {
		if slices.Contains(members, e.old.Ranks[peer]) && !slices.Contains(e.departed, peer) {
			lost(peer)
		}
	})
}

// The keys of an epoch, in the new group's part of the store.
const membersKey = "members"

func hereKey(global int) string { return fmt.Sprintf("here/%d", global) }

// Settle is called when the new group has formed. It removes this rank's keys. The decision stays for late ranks until rank
// 0 closes the group.
func (e *Epoch) Settle(n *Formation) {
	n.keys.note(hereKey(e.old.self()))
	n.tidy()
	if n.Rank == 0 {
		n.keys.note(membersKey)
	}
}

// Abandon leaves this rank's keys behind to the job, because the rank has not learned which ranks are members.
func (e *Epoch) Abandon() { e.old.job.LeaveBehind(e.store, []string{hereKey(e.old.self())}) }

// AbandonMembers leaves more keys behind, because the members could not link: the decision, and the keys of ranks that
// have departed.
func (e *Epoch) AbandonMembers() {
	keys := []string{hereKey(e.old.self()), membersKey}
	for _, peer := range e.old.Departed.peers() {
		keys = append(keys, hereKey(e.old.Ranks[peer]))
	}
	e.old.job.LeaveBehind(e.store, keys)
}

// Meet says in the store that this rank is there, and returns the members: those of the expected ranks that go on. The first
// rank for which all have either come or departed, or whose patience has ended, decides.
func (e *Epoch) Meet(ctx context.Context, expected []int, patience time.Duration) ([]int, error) {
	if err := e.store.Set(ctx, hereKey(e.old.self()), nil); err != nil {
		return nil, fmt.Errorf("the store cannot be reached: %w", err)
	}
	until := time.Now().Add(patience)
	for slice := 5 * time.Millisecond; ; slice = min(2*slice, 200*time.Millisecond) {
		here, awaited, err := e.rollCall(ctx, expected)
		if err != nil {
			return nil, err
		}
		if len(awaited) == 0 || !time.Now().Before(until) {
			return e.decide(ctx, here)
		}
		if err := waitAWhile(ctx, e.store, awaited, slice); err != nil {
			return nil, err
		}
	}
}

// rollCall returns the ranks that have come, and the keys of the ranks that may still. None is awaited once it is decided.
func (e *Epoch) rollCall(ctx context.Context, expected []int) (here []int, awaited []string, err error) {
	decided, err := e.store.Check(ctx, membersKey)
	for _, global := range expected {
		if err != nil {
			return nil, nil, fmt.Errorf("the store cannot be reached: %w", err)
		}
		var there bool
		there, err = e.store.Check(ctx, hereKey(global))
		if there {
			here = append(here, global)
		} else if gone, _ := e.old.Departed.has(e.old.find(global)); !gone {
			awaited = append(awaited, hereKey(global))
		}
	}
	if decided {
		awaited = nil
	}
	return here, awaited, err
}

// waitAWhile waits for keys, but not longer than d. If the keys have not come by then it is no error.
func waitAWhile(ctx context.Context, s store.Store, keys []string, d time.Duration) error {
	ctx2, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := s.Wait(ctx2, keys...)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for the others: %w", context.Cause(ctx))
	case err == nil || ctx2.Err() != nil || errors.Is(err, store.ErrTimeout):
		return nil
	}
	return fmt.Errorf("the store cannot be reached: %w", err)
}

// decide proposes members and returns those of the proposal that came first. The next try expects no other ranks.
func (e *Epoch) decide(ctx context.Context, here []int) ([]int, error) {
	b, err := json.Marshal(here)
	if err != nil {
		return nil, err
	}
	if b, err = e.store.CompareSet(ctx, membersKey, nil, b); err != nil {
		return nil, fmt.Errorf("the store cannot be reached: %w", err)
	}
	var members []int
	if err := json.Unmarshal(b, &members); err != nil {
		return nil, fmt.Errorf("the members in the store: %w", err)
	}
	if !e.old.ordered(members) {
		return nil, fmt.Errorf("the members in the store are %v, of a group of ranks %v", members, e.old.Ranks)
	}
	e.old.tries.mu.Lock()
	defer e.old.tries.mu.Unlock()
	e.old.tries.expected = members
	return members, nil
}

// ordered reports whether some ranks of the default group are members of the group, each named once and in the order of
// their ranks there.
func (f *Formation) ordered(members []int) bool {
	last := colligo.NoRank
	for _, global := range members {
		r := f.find(global)
		if r <= last {
			return false
		}
		last = r
	}
	return true
}
