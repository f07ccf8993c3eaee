package bootstrap

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/colligo-go/colligo/pg/internal/ranklist"
)

// firstLine is how long a rank waits for something before it says so. Each line comes after twice the time of the one before.
const firstLine = 5 * time.Second

// SayWhile logs a warning on one line after 5 s, and then ever more rarely, until it is stopped. A rank that waits for others
// says so by it.
//
// attrs is asked for the rest of each line. It may ask the store, with a context that is not cut in the middle of a request. If
// it returns nothing, there is no line: nothing is waited for any more.
func SayWhile(ctx context.Context, log *slog.Logger, text string, attrs func(ctx context.Context) []any) (stop func()) {
	began, pause := time.Now(), firstLine
	return repeat(pause, func(stopped func() bool) time.Duration {
		if ctx.Err() != nil {
			return 0
		}
		whole, done := beyond(ctx, askLimit, Grace/4)
		all := attrs(whole)
		done()
		if len(all) > 0 && ctx.Err() == nil && !stopped() {
			log.WarnContext(ctx, text, append(all, "waited", time.Since(began).Round(time.Second).String())...)
		}
		pause *= 2
		return pause
	})
}

// repeated is a function that runs from time to time. It has no goroutine between its runs, as most are stopped before the first.
type repeated struct {
	f func(stopped func() bool) time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	running chan struct{} // closed when the run under way ends; nil while there is none
	over    bool
}

// repeat runs f after a pause, and then after each pause that f returns, until it returns 0 or stop is called. F learns from stopped
// whether that has happened. Stop waits for a run under way.
func repeat(pause time.Duration, f func(stopped func() bool) time.Duration) (stop func()) {
	r := &repeated{f: f}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = time.AfterFunc(pause, r.run)
	return r.stop
}

func (r *repeated) run() {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return
	}
	done := make(chan struct{})
	r.running = done
	r.mu.Unlock()
	pause := r.f(r.stopped)
	r.mu.Lock()
	r.running = nil
	if pause > 0 && !r.over {
		r.timer.Reset(pause)
	}
	r.mu.Unlock()
	close(done)
}

func (r *repeated) stopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

func (r *repeated) stop() {
	r.mu.Lock()
	r.over = true
	r.timer.Stop()
	running := r.running
	r.mu.Unlock()
	if running != nil {
		<-running
	}
}

// askLimit bounds how long a rank that forms a group waits for the store to answer a question that it asks beside. It does so beyond its
// context. A request that is cut in the middle costs the connection, and a rank whose connection ends is taken for dead (presence).
const askLimit = 2 * time.Second

// lastError is the last error of attempts that go on.
type lastError struct {
	mu  sync.Mutex
	err error
}

func (l *lastError) set(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// text is the error's, or says that there is none.
func (l *lastError) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		return "no answer yet"
	}
	return l.err.Error()
}

// mostAsked bounds the requests by which a rank finds out who is missing, and mostNamed the ranks that it names.
const (
	mostAsked = 64
	mostNamed = 16
)

// absentees are ranks that had not registered when a rank asked the store.
type absentees struct {
	ranks []int     // the first of them
	more  bool      // there may be more
	asked time.Time // zero: never with an answer
}

// text names the ranks. It is empty if there are none.
func (a *absentees) text() string {
	switch {
	case len(a.ranks) == 0:
		return ""
	case a.more:
		return ranklist.Text(a.ranks) + " and perhaps more"
	}
	return ranklist.Text(a.ranks)
}

// absent returns the ranks that have not registered. It asks for many ranks at once, and for fewer where some are missing. With an error
// of the store it returns what the last answer was.
func (f *Formation) absent(ctx context.Context) (absentees, error) {
	now, asked := absentees{asked: time.Now()}, 0
	var look func(first, end int) error
	look = func(first, end int) error {
		if asked++; asked > mostAsked || len(now.ranks) >= mostNamed {
			now.more = true
			return nil
		}
		names := make([]string, 0, end-first)
		for r := first; r < end; r++ {
			names = append(names, rankKey(r))
		}
		all, err := f.Store.Check(ctx, names...)
		switch {
		case err != nil || all:
			return err
		case end-first == 1:
			now.ranks = append(now.ranks, first)
			return nil
		}
		if err := look(first, (first+end)/2); err != nil {
			return err
		}
		return look((first+end)/2, end)
	}
	err := look(0, f.size())
	f.lastAbsent.mu.Lock()
	defer f.lastAbsent.mu.Unlock()
	if err == nil {
		f.lastAbsent.absentees = now
	}
	return f.lastAbsent.absentees, err
}

// lastAbsent is what this rank knew when it last had an answer.
type lastAbsent struct {
	mu sync.Mutex
	absentees
}

// late describes the ranks that this rank waits for, for a line of the log. It returns nothing once all have registered.
func (f *Formation) late(ctx context.Context) []any {
	a, err := f.absent(ctx)
	text := a.text()
	switch {
	case text == "" && err == nil:
		return nil
	case text == "":
		text = "unknown, for the store does not answer"
	}
	return []any{"group", f.Name, "rank", f.Rank, "missing", text, "size", f.size()}
}

// lookAhead is how long before its limit a rank asks which ranks are missing. A busy machine may not let it ask afterwards.
const lookAhead = time.Second

// askAhead asks before ctx ends which ranks are missing, unless it is stopped.
func (f *Formation) askAhead(ctx context.Context) (stop func()) {
	due, limited := ctx.Deadline()
	if !limited {
		return func() {}
	}
	return repeat(max(time.Until(due)-lookAhead, 0), func(func() bool) time.Duration {
		asking, done := beyond(ctx, askLimit, Grace/4)
		defer done()
		_, _ = f.absent(asking) // of an error the rank hears when it asks again
		return 0
	})
}

// linked is the peers with which this rank is linked.
type linked struct {
	mu sync.Mutex
	by map[int]bool
}

// Linked hears from the mesh that this rank is linked with a peer.
func (f *Formation) Linked(peer int) {
	f.linked.mu.Lock()
	defer f.linked.mu.Unlock()
	if f.linked.by == nil {
		f.linked.by = map[int]bool{}
	}
	f.linked.by[peer] = true
}

// unlinked returns the peers with which this rank is not linked.
func (f *Formation) unlinked() (peers []int) {
	f.linked.mu.Lock()
	defer f.linked.mu.Unlock()
	for peer := range f.size() {
		if peer != f.Rank && !f.linked.by[peer] {
			peers = append(peers, peer)
		}
	}
	return peers
}

// SayLinking warns while this rank waits for links, until it is stopped. It names the ranks with which it is not linked.
func (f *Formation) SayLinking(ctx context.Context) (stop func()) {
	return f.sayMissing(ctx, "waits for links with ranks that have come", f.unlinked)
}

// SayWaiting warns while this rank, which is linked with all others, waits until they are, too. Absent returns the ranks that are
// not known to be.
func (f *Formation) SayWaiting(ctx context.Context, absent func() []int) (stop func()) {
	return f.sayMissing(ctx, "waits for ranks that are not linked with all others yet", absent)
}

// sayMissing warns of ranks that this rank waits for. It says nothing while there are none.
func (f *Formation) sayMissing(ctx context.Context, text string, absent func() []int) (stop func()) {
	return SayWhile(ctx, f.log, text, func(context.Context) []any {
		missing := absent()
		if len(missing) == 0 {
			return nil
		}
		names := ranklist.Text(missing[:min(len(missing), mostNamed)])
		if len(missing) > mostNamed {
			names += fmt.Sprintf(" and %d more", len(missing)-mostNamed)
		}
		return []any{"group", f.Name, "rank", f.Rank, "missing", names, "size", f.size()}
	})
}
