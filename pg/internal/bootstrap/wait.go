package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
)

// How often a rank that forms a group looks whether the others can still come.
const (
	brokenTick = 50 * time.Millisecond  // at what it knows itself
	firstLook  = 100 * time.Millisecond // into the store, twice as long after each look
	lastLook   = 500 * time.Millisecond
)

// lookout is how a rank that forms a group learns from the store that another has given up. One that waits for keys looks
// between two waits, so that the store needs no further connection. If nothing waits for keys, Linking looks.
type lookout struct {
	waiting atomic.Int32 // calls of read

	mu    sync.Mutex
	due   time.Time // of the next look
	pause time.Duration
	seen  map[string]time.Time    // ranks that have given up, by process, and when this rank first saw it
	end   context.CancelCauseFunc // of Linking's context; nil before
}

// Linking returns a context for a rank that forms the group, to be stopped when its links are open. From then on the control
// channel tells of the other ranks. Until then the context also ends, with the cause, when a rank has given up, and when broken
// returns an error; broken may be nil.
//
// After stop nothing counts here any more of what other ranks do. A rank that has linked may be done with the group before this
// rank runs again. It may have closed the group that this one was made of.
func (f *Formation) Linking(ctx context.Context, broken func() error) (linking context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	f.lookout.mu.Lock()
	f.lookout.end = cancel
	f.lookout.mu.Unlock()
	wait := repeat(brokenTick, func(func() bool) time.Duration {
		if ctx.Err() != nil {
			return 0
		}
		var err error
		if broken != nil {
			err = broken()
		}
		if err == nil && f.lookout.waiting.Load() == 0 {
			err = f.look(ctx)
		}
		if err != nil {
			cancel(err)
		}
		return brokenTick
	})
	return ctx, func() {
		cancel(nil)
		wait()
	}
}

// read returns the values of keys in the group's part of the store. It waits until all are there, or a rank has given up.
func (f *Formation) read(ctx context.Context, keys ...string) (values [][]byte, err error) {
	f.lookout.waiting.Add(1)
	defer f.lookout.waiting.Add(-1)
	began := time.Now()
	if len(keys) == 1 { // one request for a key that is there, as most are; of errors the loop hears, too
		if v, there, err := peek(ctx, f.Store, keys[0]); err == nil && there {
			return [][]byte{[]byte(v)}, nil
		}
	}
	for {
		slice, cancel := context.WithDeadline(ctx, f.nextLook())
		values, err = f.Store.MultiGet(slice, keys)
		sliced := slice.Err() != nil || errors.Is(err, store.ErrTimeout)
		cancel()
		switch {
		case err == nil || ctx.Err() == nil && !sliced:
			return values, f.storeEnd(err)
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil, fmt.Errorf("%w after %v", store.ErrTimeout, time.Since(began).Round(time.Millisecond))
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		if err := f.look(ctx); err != nil {
			return nil, err
		}
	}
}

// storeEnd ends Linking's context if an error says that the store is gone for good. A medium might try again. It returns the
// error.
func (f *Formation) storeEnd(err error) error {
	f.lookout.mu.Lock()
	defer f.lookout.mu.Unlock()
	if f.lookout.end != nil && storeLost(err) {
		f.lookout.end(err)
	}
	return err
}

// nextLook returns when the next look into the store is due.
func (f *Formation) nextLook() time.Time {
	l := &f.lookout
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pause == 0 {
		l.pause = firstLook
		l.due = time.Now().Add(l.pause)
	}
	return l.due
}

// gaveUpKey is where ranks enter themselves, each with a comma behind, that give up to form the group.
const gaveUpKey = "gaveup"

// look returns an error if a rank has given up, or if the store is gone for good. Before it is due it does nothing. A rank of a
// default group may be there again after its next attempt, for which there is secondChance.
func (f *Formation) look(ctx context.Context) error {
	if time.Now().Before(f.nextLook()) {
		return nil
	}
	l := &f.lookout
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pause = min(2*l.pause, lastLook)
	defer func() { l.due = time.Now().Add(l.pause) }()
	whole, done := beyond(ctx, askLimit, Grace/4)
	defer done()
	left, err := f.whoGaveUp(whole)
	if storeLost(err) && l.end != nil {
		l.end(err)
		return err
	}
	for _, e := range left {
		since, known := l.seen[e.Process]
		if !known {
			if l.seen == nil {
				l.seen = map[string]time.Time{}
			}
			since = time.Now()
			l.seen[e.Process] = since
		}
		if time.Since(since) >= f.secondChance(e.Rank) && l.end != nil {
			l.end(e) // a medium might take it for an error of the store, and try again
			return e
		}
	}
	return nil
}

// whoGaveUp returns the other ranks that have given up, in the order in which they have said so.
func (f *Formation) whoGaveUp(ctx context.Context) (left []*GaveUp, err error) {
	list, there, err := peek(ctx, f.Store, gaveUpKey)
	if err != nil || !there {
		return nil, err
	}
	for text := range strings.SplitSeq(strings.TrimSuffix(list, ","), ",") {
		rank, err := strconv.Atoi(text)
		if err != nil || rank < 0 || rank >= f.size() || rank == f.Rank {
			continue
		}
		b, there, err := peek(ctx, f.Store, rankKey(rank))
		if err != nil || !there {
			continue
		}
		if theirs, err := readInfo(rank, []byte(b)); err == nil && theirs.GaveUp != "" {
			left = append(left, theirs.left(rank))
		}
	}
	return left, nil
}

// Grace is how much longer than its limit the forming of a group may take at most, whether the store answers or not. In Grace the ranks
// find out why the group does not form:
//
//  1. A rank asks the store which ranks are missing, and says there that it has given up. Both take half of Grace at most.
//  2. If it knows of no cause but the end of another rank, it waits for that rank's word, until half of Grace is over.
//  3. Rank 0 keeps the store up for the others, for a quarter more.
const Grace = time.Second

// oneAnswer is what a rank has for a question to the store even if it was held up until its time was over.
const oneAnswer = 50 * time.Millisecond

// beyond returns a context for what a rank does when its group does not form within ctx. It ends after d, and no longer than grace
// after the deadline of ctx, but lasts for one answer.
func beyond(ctx context.Context, d, grace time.Duration) (context.Context, context.CancelFunc) {
	until := time.Now().Add(d)
	if due, limited := ctx.Deadline(); limited && due.Add(grace).Before(until) {
		until = due.Add(grace)
	}
	if least := time.Now().Add(min(d, oneAnswer)); until.Before(least) {
		until = least
	}
	return context.WithDeadline(context.WithoutCancel(ctx), until)
}

// firstWord is how long a rank that could not form the group because of another rank waits for the first cause. The rank that
// met it says goodbye to the ranks that it is linked with, and then enters it into the store.
const firstWord = 1500 * time.Millisecond

// FirstCause returns why the group could not form, where err is only what that meant for this rank: another rank went away. If
// all ranks that have said why left because of another, it is the word of the first. If no rank has, it is err.
func (f *Formation) FirstCause(ctx context.Context, err error, broken func() error) error {
	if !consequence(err) {
		return err
	}
	ctx, cancel := beyond(ctx, firstWord, Grace/2)
	defer cancel()
	for {
		left, failed := f.whoGaveUp(ctx)
		for _, e := range left {
			if !e.heard {
				return e
			}
		}
		if len(left) > 0 && !errors.As(err, new(*GaveUp)) {
			err = left[0]
		}
		if broken != nil {
			if cause := broken(); cause != nil {
				return cause
			}
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(secondLook):
		}
		if failed != nil {
			return err
		}
	}
}

// consequence reports whether a rank could not form its group because another rank went away.
func consequence(err error) bool { return errors.As(err, new(*GaveUp)) || peerLost(err) }

// peerLost reports whether an error says that another rank is gone, as this rank has seen or another one reports.
func peerLost(err error) bool {
	return (transport.Gone(err) || errors.Is(err, colligo.ErrPeerLost)) && !storeLost(err)
}

// GaveUp is the error of a rank whose group cannot form because another rank has given up.
type GaveUp struct {
	Rank    int
	Process string // in words
	Why     string
	Late    bool // because the time was up
	Lost    bool // its process has ended
	heard   bool // because another rank had
	gone    bool // because another rank was gone
}

// Error says who gave up and why.
func (e *GaveUp) Error() string {
	if e.Lost {
		return fmt.Sprintf("rank %d (%s) is lost: %s", e.Rank, e.Process, e.Why)
	}
	return fmt.Sprintf("rank %d (%s) has given up: %s", e.Rank, e.Process, e.Why)
}

// Unwrap makes it a timeout if the other rank's was one. It makes it the loss of a peer if the other's process has ended, or another peer was
// gone.
func (e *GaveUp) Unwrap() error {
	switch {
	case e.Late:
		return colligo.ErrTimeout
	case e.Lost || e.gone:
		return colligo.ErrPeerLost
	}
	return nil
}

// left is the error about the rank of this bootstrap info, which has given up.
func (c *info) left(rank int) *GaveUp {
	return &GaveUp{rank, c.Process, c.GaveUp, c.Late, c.Lost, c.Heard, c.PeerLost}
}

// Because adds to an error what has ended the context, if the error does not tell.
func Because(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}
