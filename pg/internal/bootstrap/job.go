package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/store/tcpstore"
)

// Job is what all groups of one Init share: the store in which their ranks meet. It closes the store when the last of them
// leaves.
type Job struct {
	store    store.Store      // without a group's prefix
	location string           // of the store, for messages
	probe    string           // host:port whose route tells the network interface
	server   *tcpstore.Server // of the store, on rank 0; else nil
	served   bool             // rank 0 serves the store
	closes   []func() error
	// lasting says that the store may outlive the job.
	lasting bool

	mu       sync.Mutex
	groups   int
	leftover []leftoverKey // of groups that did not form
}

// leftoverKey is a key that is still in the store.
type leftoverKey struct {
	store store.Store
	key   string
}

// Location tells where the store is, as the end of a phrase; empty for a store that the program has opened.
func (j *Job) Location() string { return j.location }

// Probe returns the host:port whose route tells the network interface, empty if there is none.
func (j *Job) Probe() string { return j.probe }

// Explain adds to an error of the store that it means the loss of rank 0, where that rank serves the store.
func (j *Job) Explain(err error) error {
	if !j.served || j.server != nil || !storeLost(err) || errors.As(err, new(*firstLost)) {
		return err
	}
	return &firstLost{err}
}

// storeLost reports whether an error says that the store is gone for good.
func storeLost(err error) bool {
	return errors.Is(err, tcpstore.ErrLost) || errors.Is(err, tcpstore.ErrNoConnection) && errors.Is(err, syscall.ECONNREFUSED)
}

// firstLost is the loss of rank 0 and of the store with it.
type firstLost struct{ err error }

// Error names the rank before what the store says.
func (e *firstLost) Error() string {
	return fmt.Sprintf("rank 0 of the default group, which serves the store, is lost: %v", e.err)
}

// Unwrap says that a peer is lost, and why.
func (e *firstLost) Unwrap() []error { return []error{colligo.ErrPeerLost, e.err} }

// noAnswer is the error of a request that a store answers at once, if it can.
type noAnswer struct {
	store string
	err   error
}

// silent is the error of a request that the store has not answered in time. It says which process should have.
func (j *Job) silent(err error) error {
	if j.served && j.server == nil {
		return &noAnswer{"rank 0 of the default group, which serves the store,", err}
	}
	return &noAnswer{"the store" + j.location, err}
}

// Error names the store, or the rank that serves it, before what the store says.
func (e *noAnswer) Error() string { return fmt.Sprintf("%s does not answer: %v", e.store, e.err) }

// Unwrap says that the time is up, and why.
func (e *noAnswer) Unwrap() []error { return []error{colligo.ErrTimeout, e.err} }

// Join counts one more group.
func (j *Job) Join() {
	j.mu.Lock()
	j.groups++
	j.mu.Unlock()
}

// LeaveBehind remembers keys of a group that did not form. The last group takes them out of their store.
func (j *Job) LeaveBehind(s store.Store, keys []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range keys {
		j.leftover = append(j.leftover, leftoverKey{s, key})
	}
}

// Leave counts one group less. After the last it removes leftover keys and closes the store.
func (j *Job) Leave() error {
	j.mu.Lock()
	j.groups--
	last, leftover := j.groups == 0, j.leftover
	j.mu.Unlock()
	if !last {
		return nil
	}
	if j.lasting {
		ctx, cancel := context.WithTimeout(context.Background(), tidyLimit)
		defer cancel()
		for _, l := range leftover {
			if _, err := l.store.Delete(ctx, l.key); err != nil {
				break // the store is gone, or will be
			}
		}
	}
	var errs []error
	for _, f := range j.closes {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// lingering is how long a rank that could not join keeps the store up, at most. Ranks that are connected leave when they have
// looked which rank has given up, and given it its second chance.
const lingering = 3 * time.Second

// How long no other rank is connected before this rank takes them for gone. A rank whose wait was cut short has closed its connection,
// and comes back to look for the cause.
const (
	away   = 200 * time.Millisecond // where all know that the group does not form
	silent = time.Second            // where some have not said so: they died, or a busy machine holds them up
)

// Linger keeps the store of the default group up for a while when this rank serves it and the group has not formed within ctx.
// Meanwhile the ranks that are connected find out what this rank knows. Unless the cause is that the time is up, ranks that are on
// their way get the chance, too.
func (j *Job) Linger(ctx context.Context, name string, size int, cause error) {
	if j.server == nil {
		return
	}
	ctx, cancel := beyond(ctx, lingering, Grace*3/4)
	defer cancel()
	s, come := store.NewPrefix(storePrefix(name), j.store), size
	all := make([]string, size)
	for r := range all {
		all[r] = rankKey(r)
	}
	if errors.Is(cause, colligo.ErrTimeout) {
		come = present(ctx, s, all)
	} else {
		// If not all come in time the context has ended, and with it what follows.
		_ = s.Wait(ctx, all...)
	}
	const own = 1 // connection
	for last := time.Now(); ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if j.server.Clients() > own {
			last = time.Now()
		}
		if gone := time.Since(last); gone >= silent || gone >= away && allKnow(ctx, s, come) {
			return
		}
	}
}

// present returns how many of some keys are in a store.
func present(ctx context.Context, s store.Store, keys []string) (n int) {
	for _, key := range keys {
		if ok, err := s.Check(ctx, key); ok && err == nil {
			n++
		}
	}
	return n
}

// allKnow reports whether so many ranks have given up to form a group. It is true as well of a group that has formed.
func allKnow(ctx context.Context, s store.Store, come int) bool {
	list, there, err := peek(ctx, s, gaveUpKey)
	ranks := map[string]bool{}
	for rank := range strings.SplitSeq(strings.TrimSuffix(list, ","), ",") {
		ranks[rank] = true
	}
	return err != nil || !there || len(ranks) >= come
}
