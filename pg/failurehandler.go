package pg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
)

// failureHandler does what a group does beside its operations when it has failed or is asked for a dump, on goroutines that
// Close waits for.
type failureHandler struct {
	*member
	config  *Config
	log     *slog.Logger
	dumper  *dumper // of the job, nil while there is none
	mesh    *atomic.Pointer[transport.Mesh]
	store   store.Store
	devices *devices
	host    *host.Backend
	group   interface{ Err() error }
	fail    func(err error, at op.Seq) // ends the group with a peer's error

	closing atomic.Int64 // since when Close has not returned, in nanoseconds since 1970; else 0
	mu      sync.Mutex
	closed  bool
	all     sync.WaitGroup
	dumping atomic.Bool // because a peer asked
	run     string      // differs between groups of one name, as those of one job after the other in a store that stays
	sound   sound       // for what waits outside operations
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
	if m := h.config.Watchdog.OnError; m == NoHandling || m == SkipCleanUp {
		return
	}
	h.devices.abort(cause)
}

// after tells the store, dumps what is recorded and, in the modes that do, ends the process.
func (h *failureHandler) after(err error, at op.Seq, own bool) {
	c := h.config
	dumps := h.dumps(err)
	propagates := own && c.Watchdog.Propagate == On
	if h.dumper == nil || !dumps && !propagates && !c.Watchdog.OnError.ends() {
		return
	}
	h.Go(func() {
		if propagates {
			h.propagate(err, at)
		}
		if dumps {
			h.dumpBecause(slog.LevelInfo, "the group failed") // the line that says so names the file
		}
		h.endProcess(err)
	})
}

// dumps reports whether a failure is a reason for a dump.
func (h *failureHandler) dumps(err error) bool {
	if errors.Is(err, ErrAborted) {
		return h.config.Recorder.DumpOnAbort == On
	}
	return h.config.Recorder.DumpOnError == On
}

// endProcess is the one place in which the package ends a process: the watchdog's modes TearDown and SkipCleanUp, which
// nobody is in unasked.
func (h *failureHandler) endProcess(cause error) {
	w := &h.config.Watchdog
	if !w.OnError.ends() || errors.Is(cause, colligo.ErrClosed) {
		return
	}
	h.log.Error("ending the process because a group failed", "group", h.name, "rank", h.rank, "mode", w.OnError.String(),
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
	m := h.mesh.Load()
	if m == nil {
		return
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		if err := (*m).Close(); err != nil {
			h.log.Debug("mesh not closed", "group", h.name, "rank", h.rank, "error", err)
		}
	}()
	limit := time.NewTimer(host.Drain)
	defer limit.Stop()
	select {
	case <-said:
	case <-limit.C:
	}
}

// sever ends links that have no other way to tell the peers of a failure.
func (h *failureHandler) sever() {
	if m := h.mesh.Load(); m != nil {
		if w, ok := (*m).(interface{ Abort() }); ok {
			w.Abort()
		}
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
	b, _ := json.Marshal(remoteError{h.run, h.rank, *failureMessage(err, at)})
	ctx, cancel := context.WithTimeout(context.Background(), storeLimit)
	defer cancel()
	if err := h.store.Set(ctx, errorKey, b); err != nil {
		h.log.Debug("error not put into the store", "group", h.name, "rank", h.rank, "seq", at.Number(), "error", err)
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
	ctx, cancel := context.WithTimeout(context.Background(), storeLimit)
	defer cancel()
	if ok, err := h.store.Check(ctx, errorKey); err != nil || !ok || h.group.Err() != nil {
		return
	}
	b, err := h.store.Get(ctx, errorKey)
	if err != nil {
		return
	}
	var r remoteError
	if err := json.Unmarshal(b, &r); err == nil && r.Run != h.run {
		return // left by an earlier group
	} else if err != nil || r.Rank == h.rank || r.Rank < 0 || r.Rank >= h.size {
		h.log.Warn("unreadable error in the store", "group", h.name, "rank", h.rank)
		return
	}
	h.takeOver(r.Rank, &r.Note)
}

// causes are the sentinels that go between ranks. An aborted group is that, whatever the reason was.
var causes = control.Causes{{Name: "aborted", Sentinel: ErrAborted}, {Name: "timeout", Sentinel: colligo.ErrTimeout},
	{Name: "mismatch", Sentinel: colligo.ErrMismatch}, {Name: "lost", Sentinel: colligo.ErrPeerLost},
	{Name: "closed", Sentinel: colligo.ErrClosed}, {Name: "corrupt", Sentinel: colligo.ErrCorrupt}}

// failureMessage tells the peers of the group's error.
func failureMessage(err error, at op.Seq) *control.Message {
	return causes.Failure(err, uint64(at), suspectsOf(err))
}

// takeOver ends the group with the error that a peer has told of.
func (h *failureHandler) takeOver(peer int, m *control.Message) {
	h.fail(causes.Reported(peer, h.size, m), op.Seq(m.Seq))
}

// wake ends the sleep of the goroutine that drives the CPU backend. Events can come before the mesh is open.
func (h *failureHandler) wake() {
	if h.mesh == nil {
		return // of a rank outside the group
	}
	if m := h.mesh.Load(); m != nil {
		(*m).Wake()
	}
}

// sound is a context that ends when the group fails or is closed.
type sound struct {
	context.Context // nil of the group that stands for a nil group
	cancel          context.CancelCauseFunc
}

// end ends it with the group's first error.
func (s *sound) end(err error) {
	if s.Context != nil {
		s.cancel(err)
	}
}

// with returns a context that ends with this one or with another. The caller has to cancel it.
func (s *sound) with(ctx context.Context) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s, func() { cancel(context.Cause(s)) })
	return limited, func() {
		stop()
		cancel(nil)
	}
}
