package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
)

// origin says which group is to be opened, and which of its ranks this is.
type origin struct {
	name  string
	rank  int
	ranks []int // of the default group
	tag   string
	first bool // the default group of an Init
	// barrier says that the members are to meet in the store if the configuration asks for it; else their parent does.
	barrier bool
	root    string // of a group that was shrunk: the name of the one before the first time
	epoch   int    // how often it was
}

// formation is what a group keeps of its forming, and of groups formed of it.
type formation struct {
	desc, tag string
	backends  backend.Selection
	root      string
	epoch     int
	expected  []int          // ranks of the default group that went on at the last try to shrink this group; nil before
	splits    int            // calls of SplitGroup
	hashed    map[string]int // groups of LocalSync by their ranks
	first     bool
	gone      gone
	keys      keys
}

// gone is the peers that have ended their part of the group, and how.
type gone struct {
	mu   sync.Mutex
	by   map[int]error
	tell func(peer int) // is told of each
}

func (s *gone) add(peer int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[int]error{}
	}
	s.by[peer] = err
	if s.tell != nil {
		s.tell(peer)
	}
}

// watch calls f for all that are gone and all that go, until stop. There is one at a time.
func (s *gone) watch(f func(peer int)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for peer := range s.by {
		f(peer)
	}
	s.tell = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tell = nil
	}
}

// peers returns who is gone.
func (s *gone) peers() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.by))
}

// has reports whether a peer is gone, and whether it died.
func (s *gone) has(peer int) (gone, died bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err, gone := s.by[peer]
	return gone, gone && !errors.Is(err, transport.ErrGoodbye)
}

// wholeTick is how often a rank that waits for others beside the group looks whether they can still come.
const wholeTick = 100 * time.Millisecond

// whileWhole returns a context that also ends when the group fails or a rank of it dies, for what waits elsewhere for its
// ranks.
func (g *Group) whileWhole(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(wholeTick)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := g.Err(); err != nil {
				cancel(err)
			} else if l := g.died.Load(); l != nil {
				cancel(classify(&transport.PeerError{Peer: l.peer, Err: l.err}))
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// because adds to an error what has ended the context, if it does not tell.
func because(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// keys are those that a rank has put into the store to form a group. It is the rendezvous that a mesh gets.
type keys struct {
	mu    sync.Mutex
	store store.Store // the group's part
	set   []string
}

func (k *keys) note(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Contains(k.set, key) {
		k.set = append(k.set, key)
	}
}

// Set implements transport.Rendezvous.
func (k *keys) Set(ctx context.Context, key string, value []byte) error {
	k.note(key)
	return k.store.Set(ctx, key, value)
}

// Get implements transport.Rendezvous.
func (k *keys) Get(ctx context.Context, key string) ([]byte, error) { return k.store.Get(ctx, key) }

// tidyLimit bounds how long leaving a group may wait for the store.
const tidyLimit = time.Second

// tidy takes this rank's keys of a group, and those given, out of the store.
func (g *Group) tidy(more ...string) {
	k := &g.form.keys
	k.mu.Lock()
	all := append(k.set, more...)
	k.set = nil
	k.mu.Unlock()
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tidyLimit)
	defer cancel()
	for _, key := range all {
		if _, err := k.store.Delete(ctx, key); err != nil {
			g.log.Debug("key left in the store", "group", g.name, "rank", g.rank, "key", key, "error", err)
			return
		}
	}
}

// formed is called when all ranks are linked, so that nobody needs what led them there. The default group's entries stay
// while it is open: they keep a second process of the same rank out, and a second job from the store.
func (g *Group) formed() {
	if g.size > 1 && !g.form.first {
		g.tidy()
	}
}

// depart takes this rank out of the books when its part of the group has ended. A store that outlives the job is left as
// it was found; what ranks that died have left, the first of the others takes away.
func (g *Group) depart() error {
	if g.world.lasting {
		var dead []string
		heir, lost := true, g.saidLost()
		for peer := range g.size {
			gone, died := g.form.gone.has(peer)
			if slices.Contains(lost, peer) { // whose own link may not have told yet
				gone, died = true, true
			}
			if died && g.form.first && g.mesh != nil {
				dead = append(dead, rankKey(peer), fmt.Sprintf("%v/%d", g.mesh, peer)) // as every medium names its address
			}
			if died && peer == 0 && g.form.epoch > 0 {
				dead = append(dead, membersKey) // which a later job would take for its own
			}
			heir = heir && (gone || peer >= g.rank)
		}
		if !heir {
			dead = nil
		}
		g.tidy(dead...)
	}
	return g.world.leave(g)
}

// saidLost returns the peers whose loss made the group fail, by whatever rank's word.
func (g *Group) saidLost() []int {
	err := g.Err()
	if !errors.Is(err, colligo.ErrPeerLost) {
		return nil
	}
	return blamed(err)
}

// meetInStore is a barrier through the store where the configuration asks for one: that of the group among whose ranks
// others have been made.
func (g *Group) meetInStore(ctx context.Context, lists []list) error {
	if g.config.InitBarrier != On || g.size == 1 {
		return nil
	}
	return barrierInStore(ctx, g.store, lists[0].name, g.size)
}

// barrierInStore returns when all have called it for a name. Its keys are those of c10d's, and the last to leave takes them
// away. c10d: _store_based_barrier.
func barrierInStore(ctx context.Context, s store.Store, name string, size int) error {
	key := "store_based_barrier_key:" + name
	last := key + ":last_worker"
	n, err := s.Add(ctx, key, 1)
	if err == nil && n == int64(size) {
		err = s.Set(ctx, last, []byte("1"))
	}
	if err == nil {
		err = s.Wait(ctx, last)
	}
	if err != nil {
		return fmt.Errorf("barrier in the store: %w", errors.Join(err, howMany(s, key, size)))
	}
	n, err = s.Add(ctx, key, 1)
	for _, k := range []string{key, last} {
		if err == nil && n == 2*int64(size) {
			_, err = s.Delete(ctx, k)
		}
	}
	if err != nil {
		return fmt.Errorf("after the barrier in the store: %w", err)
	}
	return nil
}

// howMany says how many have come to a barrier.
func howMany(s store.Store, key string, size int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	n, err := s.Add(ctx, key, 0)
	if err != nil {
		return err
	}
	return fmt.Errorf("%d of %d ranks have come", n, size)
}
