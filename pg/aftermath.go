package pg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
)

// aftermath is what a group does beside its operations, when it has failed or is asked for a dump, on goroutines that
// Close waits for.
type aftermath struct {
	mu     sync.Mutex
	closed bool
	all    sync.WaitGroup
	run    string // differs between groups of one name, as those of one job after the other in a store that stays
}

// runOf makes it of the secret that the ranks share.
func runOf(secret []byte) string {
	sum := sha256.Sum256(secret)
	return hex.EncodeToString(sum[:8])
}

// Go starts f, unless the group is as good as closed.
func (a *aftermath) Go(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.all.Go(f)
	}
}

// end waits for all of them.
func (a *aftermath) end() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.all.Wait()
}

// settleDevices ends what is pending on devices when the group has failed, in the modes that do.
func (g *Group) settleDevices(cause error) {
	if m := g.config.Watch.OnError; m == NoHandling || m == SkipCleanUp {
		return
	}
	g.backends.abort(cause)
}

// after tells the store, dumps what is recorded and, in the modes that do, ends the process.
func (g *Group) after(err error, seq uint64, own bool) {
	w := &g.config.Watch
	dumps := w.DumpOnError == On
	if errors.Is(err, ErrAborted) {
		dumps = w.DumpOnAbort == On
	}
	propagates := own && w.Propagate == On
	if g.job == nil || !dumps && !propagates && !w.OnError.ends() {
		return
	}
	g.aftermath.Go(func() {
		if propagates {
			g.propagate(err, seq)
		}
		if dumps {
			g.dumpBecause(err.Error())
		}
		g.endProcess(err)
	})
}

// endProcess is the one place in which the package ends a process: the watchdog's modes TearDown and SkipCleanUp, which
// nobody is in unasked.
func (g *Group) endProcess(cause error) {
	w := &g.config.Watch
	if !w.OnError.ends() || errors.Is(cause, colligo.ErrClosed) {
		return
	}
	g.log.Error("ending the process because a group failed", "group", g.name, "rank", g.rank, "mode", w.OnError.String(),
		"code", ExitCode, "error", cause)
	g.sayGoodbye()
	exit := w.Exit
	if exit == nil {
		exit = os.Exit
	}
	exit(ExitCode)
}

// sayGoodbye closes the mesh, so that the notes to the peers are not lost with the process.
func (g *Group) sayGoodbye() {
	m := g.ready.Load()
	if m == nil {
		return
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		if err := (*m).Close(); err != nil {
			g.log.Debug("mesh not closed", "group", g.name, "rank", g.rank, "error", err)
		}
	}()
	limit := time.NewTimer(drain)
	defer limit.Stop()
	select {
	case <-said:
	case <-limit.C:
	}
}

// errStuck is why the monitor ends a process.
var errStuck = errors.New("no sign of life")

// errorKey is where the first error of a group lies in its store. PyTorch's own keys stay untouched: its ranks end
// themselves when they see one.
const errorKey = "remote_error"

// storeLimit is how long a failed group tries to reach its store.
const storeLimit = 2 * time.Second

// propagate puts the error where ranks find it that no note reaches.
func (g *Group) propagate(err error, seq uint64) {
	b, _ := json.Marshal(remoteError{g.aftermath.run, g.rank, abortNote(err, seq)})
	ctx, cancel := context.WithTimeout(context.Background(), storeLimit)
	defer cancel()
	if err := g.forming.Store.Set(ctx, errorKey, b); err != nil {
		g.log.Debug("error not put into the store", "group", g.name, "rank", g.rank, "seq", numberOf(seq), "error", err)
	}
}

// remoteError is what lies at errorKey.
type remoteError struct {
	Run  string
	Rank int
	Note note
}

// lookForErrors takes over an error that another rank has put into the store.
func (g *Group) lookForErrors() {
	ctx, cancel := context.WithTimeout(context.Background(), storeLimit)
	defer cancel()
	if ok, err := g.forming.Store.Check(ctx, errorKey); err != nil || !ok || g.Err() != nil {
		return
	}
	b, err := g.forming.Store.Get(ctx, errorKey)
	if err != nil {
		return
	}
	var r remoteError
	if err := json.Unmarshal(b, &r); err == nil && r.Run != g.aftermath.run {
		return // left by an earlier group
	} else if err != nil || r.Rank == g.rank || r.Rank < 0 || r.Rank >= g.size {
		g.log.Warn("unreadable error in the store", "group", g.name, "rank", g.rank)
		return
	}
	g.takeOver(r.Rank, r.Note)
}
