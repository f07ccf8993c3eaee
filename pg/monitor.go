package pg

import (
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"time"
)

// monitor looks after all groups of one Init. It looks for signs of life of their progress engines, for requests of dumps,
// and for errors that peers have put into the store. It begins with the first group and outlives the shutdown of the last: a
// Close that hangs is seen too. When that Close is through, the monitor has ended.
type monitor struct {
	mu     sync.Mutex
	groups map[*failureHandler]*beats
	stop   chan struct{}
	ended  chan struct{}
}

// beats is what the monitor knows of one group.
type beats struct {
	count  uint64
	since  time.Time // of that count
	told   bool      // that it is stuck
	added  int       // operations that backends of devices have taken
	called time.Time // since when a call of one is under way, with no other taken; zero if none is
}

// add makes the monitor look after a group, if its configuration asks for anything that the monitor does.
func (m *monitor) add(h *failureHandler) {
	w, r := &h.config.Watchdog, &h.config.Recorder
	if w.Monitor != On && r.DumpPipe == "" && r.DumpSignal == nil && w.Propagate != On {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.groups == nil {
		m.groups = map[*failureHandler]*beats{}
	}
	m.groups[h] = &beats{since: time.Now()}
	if m.stop == nil {
		m.stop, m.ended = make(chan struct{}), make(chan struct{})
		go m.run(h, openPipe(h), m.stop, m.ended)
	}
}

// remove returns when nothing looks after a group any more: its store may go away, and the process may go on. With the last
// group it ends the monitor.
func (m *monitor) remove(h *failureHandler) {
	m.mu.Lock()
	_, mine := m.groups[h]
	delete(m.groups, h)
	last := mine && len(m.groups) == 0
	stop, ended := m.stop, m.ended
	if last {
		m.stop = nil
	}
	m.mu.Unlock()
	if last {
		close(stop)
		<-ended
	}
}

// run is the monitor's goroutine. first is the group that it began with, by whose settings it goes.
func (m *monitor) run(first *failureHandler, pipe *pipe, stop <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	w, r := &first.config.Watchdog, &first.config.Recorder
	asked := make(chan os.Signal, 1)
	if r.DumpSignal != nil {
		signal.Notify(asked, r.DumpSignal)
		defer signal.Stop(asked)
	}
	defer pipe.close()
	every := w.Heartbeat / 4
	if pipe != nil || w.Propagate == On {
		every = min(every, w.CoordCheck)
	}
	tick := time.NewTicker(max(every, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-asked:
			first.dumpBecause(slog.LevelWarn, "signal "+r.DumpSignal.String())
		case <-tick.C:
			if pipe.asks() {
				first.dumpBecause(slog.LevelWarn, "asked through "+pipe.path)
			}
			m.look(time.Now())
		}
	}
}

// look visits every group.
func (m *monitor) look(now time.Time) {
	m.mu.Lock()
	all := make(map[*failureHandler]*beats, len(m.groups))
	for h, p := range m.groups {
		all[h] = p
	}
	m.mu.Unlock()
	for h, p := range all {
		if h.config.Watchdog.Propagate == On && h.group.Err() == nil {
			h.lookForErrors()
		}
		if h.config.Watchdog.Monitor == On {
			p.check(h, now)
		}
	}
}

// check looks whether a group is alive. A sleeping driver is woken to give a sign.
func (p *beats) check(h *failureHandler, now time.Time) {
	limit := h.config.Watchdog.Heartbeat
	count := h.host.Beats()
	what := ""
	switch {
	case tooLong(h.closing.Load(), now, limit):
		what = "closing the group"
	case p.inCall(h.devices, now) >= limit:
		what = "a call of the device's backend"
	case count != p.count || !h.host.Driven():
		p.count, p.since, p.told = count, now, false
		return
	case now.Sub(p.since) < limit:
		h.wake()
		return
	default:
		what = "what drives the group's operations"
	}
	if p.told {
		return
	}
	p.told = true
	stacks := make([]byte, 256<<10)
	h.log.Error("no sign of life: "+what+" is stuck", "group", h.name, "rank", h.rank, "heartbeat", limit,
		"stacks", string(stacks[:runtime.Stack(stacks, true)]))
	if h.config.Recorder.DumpOnError == On {
		h.dumpBecause(slog.LevelWarn, what+" is stuck")
	}
	h.endProcess(errStuck)
}

// inCall returns for how long the monitor has seen one call of a backend under way. Calls that follow one another are told apart by the
// operations that were taken. So calls of the group's own, and those that were refused, count as one with the call before.
func (p *beats) inCall(d *devices, now time.Time) time.Duration {
	switch added := d.watch.Added(); {
	case !d.busy():
		p.called = time.Time{}
	case p.called.IsZero() || added != p.added:
		p.added, p.called = added, now
	}
	if p.called.IsZero() {
		return 0
	}
	return now.Sub(p.called)
}

func tooLong(since int64, now time.Time, limit time.Duration) bool {
	return since != 0 && now.Sub(time.Unix(0, since)) >= limit
}
