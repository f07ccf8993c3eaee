package pg

import (
	"fmt"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/internal/ranklist"
	"github.com/colligo-go/colligo/pg/internal/watchdog"
)

// parting is what a rank knows of the ranks that have come to close the group, where Config.CloseBarrier has them wait.
type parting struct {
	*member
	called   func() op.Seq // the last collective
	failed   func() error
	fail     func(err error, at op.Seq)
	tell     func(*control.Message)
	tellEach func(of func(peer int) *control.Message)
	limit    func() time.Duration
	departed func(peer int) (gone, died bool)

	mu   sync.Mutex
	own  bool           // this rank has come
	last map[int]op.Seq // by rank that has come, the last collective that it has called
	more chan struct{}  // has room for one signal; nil before this rank has come
}

// part waits until all ranks have come to close the group, and compares which collective they have called last. It returns what
// is wrong, and at once if the group has failed.
func (p *parting) part() error {
	if err := p.failed(); err != nil { // a rank that gave up before its last call tells nobody of a mismatch
		return fmt.Errorf("pg: close group %s: %w", p.name, err)
	}
	last := p.called()
	p.mu.Lock()
	p.own, p.more = true, make(chan struct{}, 1)
	p.put(p.rank, last)
	p.mu.Unlock()
	p.tell(&control.Message{Kind: control.Parting, Seq: uint64(last)})
	if err := p.wait(); err != nil {
		return fmt.Errorf("pg: close group %s: %w", p.name, err)
	}
	return nil
}

// partingTick is how often a rank that waits looks at what sends no signal: the group's error, and ranks that are gone.
const partingTick = 50 * time.Millisecond

// wait returns nil when all ranks have come and have called the same last collective.
func (p *parting) wait() error {
	tick := time.NewTicker(partingTick)
	defer tick.Stop()
	for began := time.Now(); ; {
		if err := p.failed(); err != nil {
			return err
		}
		missing, least, err := p.compare()
		if err != nil {
			p.fail(err, after(least))
			return err
		}
		if missing == nil {
			return nil
		}
		limit := p.limit()
		if time.Since(began) >= limit {
			text := fmt.Errorf("%s %s not come to close the group after %v", ranklist.Both(missing, p.renumbered()),
				ranklist.Verb(missing, "has", "have"), limit)
			return &suspected{diagnose.WithClass(text, colligo.ErrTimeout), missing}
		}
		select {
		case <-p.more:
		case <-tick.C:
		}
	}
}

// compare returns the ranks that have not come and are not gone. An error says that a rank has died or has called another
// number of collectives. Least is the last collective that all have called.
func (p *parting) compare() (missing []int, least op.Seq, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ours := p.last[p.rank]
	for peer := range p.size {
		last, come := p.last[peer]
		gone, died := p.departed(peer)
		switch {
		case come && last.Number() != ours.Number():
			return nil, min(last, ours), p.differ(peer, p.rank, last, ours)
		case died && !come:
			return nil, ours, diagnose.WithClass(fmt.Errorf("%s died before it closed the group", p.named(peer)), colligo.ErrPeerLost)
		case !come && !gone:
			missing = append(missing, peer)
		}
	}
	return missing, ours, nil
}

// differ is the error of a rank that closes the group and one that has called more collectives.
func (m *member) differ(first, second int, after, called op.Seq) error {
	if after > called {
		first, second, after, called = second, first, called, after
	}
	return diagnose.WithClass(fmt.Errorf("%s closes the group after collective #%d, %s has called #%d", m.named(first), after.Number(),
		m.named(second), called.Number()), colligo.ErrMismatch)
}

// after is the place of the first collective that a rank has not called which has called so many.
func after(last op.Seq) op.Seq { return op.SeqOf(last.Number() + 1) }

// named prints a rank for an error.
func (m *member) named(rank int) string { return ranklist.Both([]int{rank}, m.renumbered()) }

// put takes the last collective of a rank. The caller holds p.mu.
func (p *parting) put(rank int, last op.Seq) {
	if p.last == nil {
		p.last = map[int]op.Seq{}
	}
	p.last[rank] = last
	select {
	case p.more <- struct{}{}:
	default: // nobody waits, or there is a signal already
	}
}

// heard hears that a peer closes the group. A collective of this rank that the peer has not called can never be right.
func (p *parting) heard(peer int, m *control.Message) {
	ours := p.called()
	p.mu.Lock()
	p.put(peer, op.Seq(m.Seq))
	waits := p.own
	p.mu.Unlock()
	if !waits && ours.Number() > op.Seq(m.Seq).Number() {
		p.fail(p.differ(peer, p.rank, op.Seq(m.Seq), ours), after(op.Seq(m.Seq)))
	}
}

// leave tells the peers which operations on devices cannot complete any more because this rank closes the group. On the CPU their links
// tell them; a kernel that waits for this rank has none. The group's pending operations have had their time.
func (p *parting) leave(d *watchdog.Devices) {
	last := p.called().Number()
	p.tellEach(func(peer int) *control.Message {
		l := d.Leaving(peer, last)
		return &control.Message{Kind: control.Leaving, Seq: uint64(op.SeqOf(l.Collective)), Sent: l.Sends, Got: l.Recvs}
	})
}

// hasLeft hears that a peer leaves the group. The watchdog then looks out for operations on devices that need more of it.
func hasLeft(d *watchdog.Devices, peer int, m *control.Message) {
	d.Leaves(peer, watchdog.Leaver{Collective: op.Seq(m.Seq).Number(), Sends: m.Sent, Recvs: m.Got})
}

// missed hears which collective a peer has called. If this rank closes the group before it, the collective cannot end.
func (p *parting) missed(peer int, m *control.Message) {
	p.mu.Lock()
	own, ours := p.own, p.last[p.rank]
	p.mu.Unlock()
	if own && ours.Number() < op.Seq(m.Seq).Number() {
		p.fail(p.differ(p.rank, peer, ours, op.Seq(m.Seq)), after(ours))
	}
}
