package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/store"
)

// tries counts the tries to shrink a group.
type tries struct {
	mu       sync.Mutex
	epoch    int
	expected []int  // ranks of the default group that went on at the last try; nil before
	last     *Epoch // nil before the first
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
//  1. Each rank sets the key of its own presence, and counts it up while it waits.
//  2. It looks which ranks have come, until all expected ranks have come or departed, or its patience ends.
//  3. It proposes the ranks that have come as the members. The first proposal holds for all.
//
// A rank that cannot come is not awaited:
//
//  1. A rank that died is known from the old group. If it came before it died, its presence does not count up any more.
//  2. A rank whose Shrink ended with an error enters itself as out, in the epoch at which it was.
//  3. A rank that closed the old group does not come to the first try. To a later one it may come, for the try before may have
//     gone well for it. Then it is on its way from the group of that try.
//  4. A rank for which the old group never formed, though it did for others, has left it for its next try. Before its links with the old
//     group ended, it said so there in the store. So it is awaited, though the old group has lost it.
type Epoch struct {
	Name     string // of the new group
	old      *Formation
	epoch    int
	departed []int // from the old group, when the epoch began
	doubts   map[int]doubt
	store    store.Store
	before   store.Store // of the try before; nil in the first
}

// doubt is a rank that has come, and whose process this rank has lost in the old group.
type doubt struct {
	beat  string // of its presence, when this rank first looked
	since time.Time
}

// doubted is how long the presence of a rank in doubt may stand still.
const doubted = 2 * time.Second

// NextEpoch begins one more try.
func (f *Formation) NextEpoch() *Epoch {
	f.tries.mu.Lock()
	f.tries.epoch++
	defer f.tries.mu.Unlock()
	name := fmt.Sprintf("%s@%d", f.Root, f.tries.epoch)
	e := &Epoch{Name: name, old: f, epoch: f.tries.epoch, departed: f.Departed.peers(), doubts: map[int]doubt{},
		store: store.NewPrefix(storePrefix(name), f.job.store)}
	if last := f.tries.last; last != nil {
		e.before = last.store
	}
	f.tries.last = e
	return e
}

// Member returns this rank's part in the new group, of which it must be a member.
func (e *Epoch) Member(members []int) Member {
	return Member{Name: e.Name, Rank: slices.Index(members, e.old.self()), Ranks: members, Tag: e.old.Tag, Root: e.old.Root, Epoch: e.epoch}
}

// self is this rank's number in the default group.
func (f *Formation) self() int { return f.Ranks[f.Rank] }

// Lost returns a rank of the old group that is among the members and has departed since the epoch began, colligo.NoRank while
// there is none. Ranks that had departed before came nevertheless.
func (e *Epoch) Lost(members []int) int {
	for _, peer := range e.old.Departed.peers() {
		if slices.Contains(members, e.old.Ranks[peer]) && !slices.Contains(e.departed, peer) {
			return peer
		}
	}
	return colligo.NoRank
}

// The keys of an epoch, in the new group's part of the store.
const membersKey = "members"

func hereKey(global int) string { return fmt.Sprintf("here/%d", global) }
func outKey(global int) string  { return fmt.Sprintf("out/%d", global) }
func nextKey(global int) string { return fmt.Sprintf("next/%d", global) }

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

// Out is called when this rank does not go on. It tells the ranks that wait for it at this epoch or the next.
func (e *Epoch) Out() {
	ctx, cancel := context.WithTimeout(context.Background(), giveUpLimit)
	defer cancel()
	key := outKey(e.old.self())
	if err := e.say(ctx, key); err != nil {
		e.old.log.Debug("could not say in the store that this rank does not go on", "group", e.Name, "rank", e.old.Rank, "error", err)
	}
	e.old.job.LeaveBehind(e.store, []string{key})
}

// GoOn says in the store that this rank goes on to the next try though this one went well for some. It must be called before the rank's
// links with the new group end.
func (e *Epoch) GoOn() {
	ctx, cancel := context.WithTimeout(context.Background(), giveUpLimit)
	defer cancel()
	if err := e.say(ctx, nextKey(e.old.self())); err != nil {
		e.old.log.Debug("could not say in the store that this rank tries again", "group", e.Name, "rank", e.old.Rank, "error", err)
	}
}

// say sets a key without a value, and returns when the store has it.
func (e *Epoch) say(ctx context.Context, key string) error {
	if err := e.store.Set(ctx, key, nil); err != nil {
		return err
	}
	return arrived(ctx, e.store)
}

// goesOn reports whether a rank has left the old group, which never formed for it, to form the next one.
func (e *Epoch) goesOn(ctx context.Context, global int) (bool, error) {
	next, err := e.old.Store.Check(ctx, nextKey(global))
	if err != nil || !next {
		return false, err
	}
	out, err := e.old.Store.Check(ctx, outKey(global))
	return !out, err
}

// AbandonMembers leaves more keys behind, because the members could not link: the decision, and the keys of ranks that
// have departed.
func (e *Epoch) AbandonMembers() {
	keys := []string{hereKey(e.old.self()), nextKey(e.old.self()), membersKey}
	for _, peer := range e.old.Departed.peers() {
		keys = append(keys, hereKey(e.old.Ranks[peer]))
	}
	e.old.job.LeaveBehind(e.store, keys)
}

// Meet says in the store that this rank is there, and returns the members: those of the expected ranks that go on. The first
// rank for which all have either come or departed, or whose patience has ended, decides.
//
// The store has half of Grace to answer once this rank's patience has ended.
func (e *Epoch) Meet(ctx context.Context, expected []int, patience time.Duration) ([]int, error) {
	until := time.Now().Add(patience)
	asking, cancel := context.WithDeadline(ctx, until.Add(Grace/2))
	defer cancel()
	members, err := e.meet(asking, expected, until)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && asking.Err() != nil {
		return nil, e.old.job.silent(errors.Unwrap(err)) // without what this rank was about to do
	}
	return members, err
}

func (e *Epoch) meet(ctx context.Context, expected []int, until time.Time) ([]int, error) {
	slice := 5 * time.Millisecond
	for beat := 0; ; beat, slice = beat+1, min(2*slice, 200*time.Millisecond) {
		if err := e.store.Set(ctx, hereKey(e.old.self()), strconv.AppendInt(nil, int64(beat), 10)); err != nil {
			return nil, unreachable(err)
		}
		here, awaited, doubtful, err := e.rollCall(ctx, expected)
		if err != nil {
			return nil, err
		}
		if len(awaited) == 0 && !doubtful || !time.Now().Before(until) {
			return e.decide(ctx, here)
		}
		if err := waitAWhile(ctx, e.store, awaited, min(slice, time.Until(until))); err != nil {
			return nil, err
		}
	}
}

// rollCall returns the ranks that have come, and the keys of the ranks that may still. It also reports whether ranks have
// come that may be dead. No rank is awaited once it is decided.
func (e *Epoch) rollCall(ctx context.Context, expected []int) (here []int, awaited []string, doubtful bool, err error) {
	decided, err := e.store.Check(ctx, membersKey)
	switch {
	case err != nil:
		return nil, nil, false, unreachable(err)
	case decided:
		return nil, nil, false, nil
	}
	for _, global := range expected {
		gone, died := e.old.Departed.Has(e.old.find(global))
		beat, came, err := peek(ctx, e.store, hereKey(global))
		if err != nil {
			return nil, nil, false, unreachable(err)
		}
		dead, doubt := died, false
		if came && died {
			dead, doubt = e.doubt(global, beat)
		}
		doubtful = doubtful || doubt
		comes := false
		switch {
		case came && !dead && !doubt:
			here = append(here, global)
		case came:
		case died || gone && e.before == nil:
			comes, err = e.goesOn(ctx, global)
		default:
			comes, err = e.out(ctx, global)
			comes = !comes
		}
		if err != nil {
			return nil, nil, false, unreachable(err)
		}
		if comes {
			awaited = append(awaited, hereKey(global))
		}
	}
	return here, awaited, doubtful, nil
}

// out reports whether a rank has given up to shrink the group.
func (e *Epoch) out(ctx context.Context, global int) (bool, error) {
	out, err := e.store.Check(ctx, outKey(global))
	if err == nil && !out && e.before != nil {
		out, err = e.before.Check(ctx, outKey(global))
	}
	return out, err
}

// peek returns the value of a key, and whether there is one. It does not wait for it.
func peek(ctx context.Context, s store.Store, key string) (value string, there bool, err error) {
	const none = "?" // which no key here has for its value
	b, err := s.CompareSet(ctx, key, []byte(none), []byte(none))
	return string(b), err == nil && string(b) != none, err
}

// doubt decides whether a rank is dead that has come, though this rank has lost it in the old group. With open it cannot tell yet.
// A rank that was lost after the epoch began is dead.
func (e *Epoch) doubt(global int, beat string) (dead, open bool) {
	if !slices.Contains(e.departed, e.old.find(global)) {
		return true, false
	}
	d, known := e.doubts[global]
	switch {
	case !known:
		e.doubts[global] = doubt{beat, time.Now()}
		return false, true
	case d.beat != beat:
		return false, false
	}
	dead = time.Since(d.since) >= doubted
	return dead, !dead
}

func unreachable(err error) error { return fmt.Errorf("the store cannot be reached: %w", err) }

// waitAWhile waits for keys, but not longer than d, and without keys just so long. If the keys have not come by then it is no
// error.
func waitAWhile(ctx context.Context, s store.Store, keys []string, d time.Duration) error {
	ctx2, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var err error
	if len(keys) == 0 {
		<-ctx2.Done()
	} else {
		err = s.Wait(ctx2, keys...)
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for the others: %w", context.Cause(ctx))
	case err == nil || ctx2.Err() != nil || errors.Is(err, store.ErrTimeout):
		return nil
	}
	return unreachable(err)
}

// decide proposes members and returns those of the proposal that came first. The next try expects no other ranks.
func (e *Epoch) decide(ctx context.Context, here []int) ([]int, error) {
	b, err := json.Marshal(here)
	if err != nil {
		return nil, err
	}
	if b, err = e.store.CompareSet(ctx, membersKey, nil, b); err != nil {
		return nil, unreachable(err)
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
