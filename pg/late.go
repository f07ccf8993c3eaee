package pg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/internal/ranklist"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// late fails the group because an operation took too long, with a line that says why and the ranks at fault. The line ends with the
// words of the operation's device, if it has any. late returns the error, nil if the group has failed meanwhile.
func (e *events) late(o *op.Op, device string) error {
	g := e.g
	if speaksTorch(g) {
		return e.lateWithTorch(o)
	}
	if !o.OnCPU() { // its backend, its watchdog and its caller can all find it late
		g.devices.asking <- struct{}{}
		defer func() { <-g.devices.asking }()
		if g.Err() != nil {
			return nil
		}
	}
	own := g.control.Here()
	if o.OnCPU() { // then this is the goroutine of the progress engine
		at, resume := g.host.Pause()
		defer resume()
		own.At, own.From, own.Sent, own.Got = uint64(at.At), at.From, at.Sent, at.Got
	}
	about := uint64(o.Seq)
	if o.P2P() {
		about = 0
	}
	got := g.control.Ask(about)
	if g.Err() != nil {
		return nil // a peer has told the cause in the meantime, and may have gone without an answer
	}
	if g.config.Debug.Desync == On {
		e.logDesync(got)
	}
	report := diagnose.Explain(e.lateCall(o, got), own, got)
	if device != "" {
		report.Line += "; on the device " + device
	}
	cause := report.Err()
	if report.Class == colligo.ErrTimeout {
		cause = &suspected{cause, report.Suspects}
	}
	at := o.Seq
	if o.P2P() {
		at = 0
	}
	err := g.explain(o, at, cause, false)
	if o.OnCPU() {
		o.More().Late = err
	}
	g.fail(err, true)
	return err
}

// lateWithTorch fails the group because an operation took too long. Ranks of PyTorch cannot be asked where they are, so the error names
// those that the operation waits for.
func (e *events) lateWithTorch(o *op.Op) error {
	g, peers := e.g, e.awaited(o)
	err := fmt.Errorf("not over after %v, waits for %s", o.Limit.Round(time.Millisecond), ranklist.Text(peers))
	cause := error(&suspected{diagnose.WithClass(err, colligo.ErrTimeout), peers})
	at := o.Seq
	if o.P2P() {
		at = 0
	}
	err = g.explain(o, at, cause, false)
	o.More().Late = err
	g.fail(err, true)
	return err
}

// awaited returns the peers that an operation waits for. On a device these are all that take part in it.
func (e *events) awaited(o *op.Op) []int {
	switch {
	case o.OnCPU():
		return e.g.host.Waiting(o)
	case o.P2P():
		return []int{int(o.Peer)}
	}
	return slices.DeleteFunc(bootstrap.AllRanks(e.g.size), func(r int) bool { return r == e.g.rank })
}

// lateCall describes an operation for package diagnose, which has the peers' answers.
func (e *events) lateCall(o *op.Op, got diagnose.Snapshots) *diagnose.Operation {
	g := e.g
	d := &diagnose.Operation{Rank: g.rank, Size: g.size, Coll: o.Coll, Seq: uint64(o.Seq), Call: host.Describe(o.Identity(g.id)),
		After: min(o.Limit, time.Since(o.Clocked())).Round(time.Millisecond).String(), Device: !o.OnCPU(), Peer: int(o.Peer), Tag: int(o.Tag),
		Left: g.forming.Departed.Left(), Global: g.renumbered()}
	e.remember(d, got)
	if o.Coll == plan.Recv && !d.Device { // of a receive on a device another goroutine may own the unexpected messages
		d.Unexpected = g.host.Unexpected(d.Peer, diagnose.MostNamed)
	}
	return d
}

// remember adds the calls that this rank has gone on from, where a peer is in one of them.
func (e *events) remember(d *diagnose.Operation, got diagnose.Snapshots) {
	for _, s := range got {
		if call, ok := e.g.control.Progress.At(s.Seq); ok && s.Seq < d.Seq {
			if d.Past == nil {
				d.Past = map[uint64]string{}
			}
			d.Past[s.Seq] = host.Describe(call)
		}
	}
}

// logDesync logs one line for each peer: where it is, or that it does not answer.
func (e *events) logDesync(got diagnose.Snapshots) {
	g := e.g
	for peer := range g.size {
		if peer == g.rank {
			continue
		}
		s, ok := got[peer]
		does := "does not answer"
		if ok {
			does = s.Doing()
		}
		g.log.Warn("where a rank is", "group", g.name, "rank", g.rank, "seq", op.Seq(s.Seq).Number(), "peer", peer, "entered", s.Call, "does", does)
	}
}

// Late implements host.Group and watchdog.Group.
func (e *events) Late(o *op.Op) { _ = e.late(o, "") }

// silence is how long an operation waits before its rank says for what. It is below 5 s by what the peers take to answer.
const silence = 4 * time.Second

// Lingers implements host.Group and watchdog.Group: it tells the next rank what this rank has called in a collective that is not over
// soon. If the ranks do not call the same, one of them calls something else than the rank after it. Most mismatches show in a frame.
// This finds the others: of frames that nobody takes from their link, and of kernels, whose flags do not tell calls apart.
func (e *events) Lingers(o *op.Op) { e.g.control.TellNext(e.called(o)) }

// Stalled implements host.Group and watchdog.Group: it tells all peers what this rank has called in a collective that stands still. The
// next rank may have been behind when it was told. Later Stalled also has the user told for what the operation waits.
func (e *events) Stalled(o *op.Op) {
	if !o.P2P() {
		e.g.control.Tell(e.called(o))
	}
	if time.Since(o.Clocked()) >= silence {
		e.sayWait(o)
	}
}

// called tells what this rank has called.
func (e *events) called(o *op.Op) *control.Message {
	return &control.Message{Kind: control.Called, Seq: uint64(o.Seq), Call: host.Describe(o.Identity(e.g.id))}
}

// Abandoned implements watchdog.Group. On the CPU the link to a peer that has left ends an operation that needs more of it.
func (e *events) Abandoned(o *op.Op, peer int) {
	g, at := e.g, o.Seq
	err := g.explain(o, at, host.Classify(&transport.PeerError{Peer: peer, Err: transport.ErrGoodbye}), false)
	if o.P2P() {
		g.fail(err, true)
		return
	}
	g.failAt(err, at, true)
}

// sayWait logs for what an operation waits, unless it is over when the peers have answered. It is a warning, but for a receive from any
// rank, as of a service that nobody asks anything.
func (e *events) sayWait(o *op.Op) {
	g, d := e.g, e.lateCall(o, nil)
	d.After = time.Since(o.Clocked()).Round(time.Second).String()
	about, what := d.Seq, []any{"group", g.name, "rank", g.rank, "op", d.Coll.String()}
	if o.P2P() {
		about = 0
	} else {
		what = append(what, "seq", o.Seq.Number())
	}
	say := func(level slog.Level, why string) {
		g.log.Log(context.Background(), level, "an operation waits", append(what, "cause", why)...)
	}
	if speaksTorch(g) {
		say(slog.LevelWarn, fmt.Sprintf("after %s it waits for %s", d.After, ranklist.Text(e.awaited(o))))
		return
	}
	g.control.Survey(about, func(got diagnose.Snapshots) {
		own := g.control.Standing()
		if g.Err() != nil || own.Over(d) {
			return
		}
		e.remember(d, got)
		level := slog.LevelWarn
		if d.Coll == plan.Recv && d.Peer == diagnose.AnyPeer && len(d.Unexpected) == 0 {
			level = slog.LevelInfo
		}
		say(level, diagnose.Explain(d, own, got).Line)
	})
}

// compare holds what a peer has called against what this rank called with the same number, as soon as it has come that far.
func (e *events) compare(peer int, m *control.Message) {
	g := e.g
	ours, ok := g.control.Progress.At(m.Seq)
	if !ok && !g.control.Keep(peer, m) {
		ours, ok = g.control.Progress.At(m.Seq)
	}
	cause := &host.Mismatch{Peer: peer, Ours: ours, Said: m.Call}
	at, what := op.Seq(m.Seq), "collective"
	if ok {
		what = plan.Coll(ours.Coll).String()
	}
	if !ok || m.Call == "" || m.Call == host.Describe(ours) {
		history := g.control.Progress.HistoryAt(m.Seq)
		if m.History == 0 || history == 0 || m.History == history {
			return
		}
		cause.UpTo = at.Number()
	}
	g.failAt(g.failure(what, at.Number(), peer, cause), at, true)
}

// errLate ends the wait for an operation on a device.
var errLate = fmt.Errorf("deadline of the operation: %w", colligo.ErrTimeout)

// waitBlocking holds the caller until an operation is done, and no longer than the operation may take. An operation that is
// pending at the context's deadline is late, too.
func (w *Work) waitBlocking(ctx context.Context) error {
	g, o, p := w.group, w.op, w.pending
	limit, cancel := context.WithCancel(ctx)
	if o.Done == nil { // on the CPU the progress engine looks at the limit
		if due := o.Deadline(); !due.IsZero() {
			limit, cancel = context.WithDeadlineCause(ctx, due, errLate)
		}
	}
	defer cancel()
	err := p.Synchronize(limit)
	late := errors.Is(context.Cause(limit), errLate) || errors.Is(ctx.Err(), context.DeadlineExceeded)
	if err == nil || !late || p.Done() || g.Err() != nil {
		return err
	}
	if o.Done != nil {
		g.host.Expire(o)
		return p.Synchronize(context.Background())
	}
	return cmp.Or((&events{g}).late(o.First(), ""), g.Err())
}
