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
		whole, done := uncut(ctx)
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

// askLimit bounds how long a rank that forms a group waits for the store to answer a question that it asks beside.
const askLimit = 2 * time.Second

// uncut returns a context for requests to the store beside others. It does not end with ctx. A request that is
// cut in the middle costs the connection, and a rank whose connection ends is taken for dead (presence).
func uncut(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), askLimit)
}

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

// absent returns the first ranks that have not registered, and whether there may be more. It asks for many ranks at once, and
// for fewer where some are missing.
func (f *Formation) absent(ctx context.Context) (ranks []int, more bool) {
	asked := 0
	var look func(first, end int)
	look = func(first, end int) {
		if asked++; asked > mostAsked || len(ranks) >= mostNamed || ctx.Err() != nil {
			more = true
			return
		}
		names := make([]string, 0, end-first)
		for r := first; r < end; r++ {
			names = append(names, rankKey(r))
		}
		switch all, err := f.Store.Check(ctx, names...); {
		case err != nil:
			more = true
		case all:
		case end-first == 1:
			ranks = append(ranks, first)
		default:
			look(first, (first+end)/2)
			look((first+end)/2, end)
		}
	}
	look(0, f.size())
	return ranks, more
}

// late describes the ranks that this rank waits for, for a line of the log. It returns nothing once all have registered.
func (f *Formation) late(ctx context.Context) []any {
	missing, more := f.absent(ctx)
	if len(missing) == 0 && !more {
		return nil
	}
	text := "unknown"
	if len(missing) > 0 {
		text = ranklist.Text(missing)
	}
	if more {
		text += " and perhaps more"
	}
	return []any{"group", f.Name, "rank", f.Rank, "missing", text, "size", f.size()}
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
