package pg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// failureHandler does what a group does beside its operations when it has failed or is asked for a dump, on goroutines that
// Close waits for.
type failureHandler struct {
	g       *Group
	mu      sync.Mutex
	closed  bool
	all     sync.WaitGroup
	dumping atomic.Bool // because a peer asked
	run     string      // differs between groups of one name, as those of one job after the other in a store that stays
}

// runOf makes it of the secret that the ranks share.
func runOf(secret []byte) string {
	sum := sha256.Sum256(secret)
	return hex.EncodeToString(sum[:8])
}

// Go starts f, unless the group is as good as closed.
func (h *failureHandler) Go(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.all.Go(f)
	}
}

// end waits for all of them.
func (h *failureHandler) end() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.all.Wait()
}

// abortDevices ends what is pending on devices when the group has failed, in the modes that do.
func (h *failureHandler) abortDevices(cause error) {
	g := h.g
	if m := g.config.Watchdog.OnError; m == NoHandling || m == SkipCleanUp {
		return
	}
	g.devices.abort(cause)
}

// after tells the store, dumps what is recorded and, in the modes that do, ends the process.
func (h *failureHandler) after(err error, at op.Seq, own bool) {
	g := h.g
	c := &g.config
	dumps := c.Recorder.DumpOnError == On
	if errors.Is(err, ErrAborted) {
		dumps = c.Recorder.DumpOnAbort == On
	}
	propagates := own && c.Watchdog.Propagate == On
	if g.job == nil || !dumps && !propagates && !c.Watchdog.OnError.ends() {
		return
	}
	h.Go(func() {
		if propagates {
			h.propagate(err, at)
		}
		if dumps {
			h.dumpBecause(err.Error())
		}
		h.endProcess(err)
	})
}

// endProcess is the one place in which the package ends a process: the watchdog's modes TearDown and SkipCleanUp, which
// nobody is in unasked.
func (h *failureHandler) endProcess(cause error) {
	g := h.g
	w := &g.config.Watchdog
	if !w.OnError.ends() || errors.Is(cause, colligo.ErrClosed) {
		return
	}
	g.log.Error("ending the process because a group failed", "group", g.name, "rank", g.rank, "mode", w.OnError.String(),
		"code", ExitCode, "error", cause)
	h.sayGoodbye()
	exit := w.Exit
	if exit == nil {
		exit = os.Exit
	}
	exit(ExitCode)
}

// sayGoodbye closes the mesh, so that the notes to the peers are not lost with the process.
func (h *failureHandler) sayGoodbye() {
	g := h.g
	m := g.mesh.Load()
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
	limit := time.NewTimer(host.Drain)
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
func (h *failureHandler) propagate(err error, at op.Seq) {
	g := h.g
	b, _ := json.Marshal(remoteError{h.run, g.rank, *failureMessage(err, at)})
	ctx, cancel := context.WithTimeout(context.Background(), storeLimit)
	defer cancel()
	if err := g.forming.Store.Set(ctx, errorKey, b); err != nil {
		g.log.Debug("error not put into the store", "group", g.name, "rank", g.rank, "seq", at.Number(), "error", err)
	}
}

// remoteError is what lies at errorKey.
type remoteError struct {
	Run  string
	Rank int
	Note control.Message
}

// lookForErrors takes over an error that another rank has put into the store.
func (h *failureHandler) lookForErrors() {
	g := h.g
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
	if err := json.Unmarshal(b, &r); err == nil && r.Run != h.run {
		return // left by an earlier group
	} else if err != nil || r.Rank == g.rank || r.Rank < 0 || r.Rank >= g.size {
		g.log.Warn("unreadable error in the store", "group", g.name, "rank", g.rank)
		return
	}
	h.takeOver(r.Rank, &r.Note)
}
