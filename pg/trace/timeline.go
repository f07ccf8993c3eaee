package trace

import (
	"fmt"
	"io"

	"github.com/colligo-go/colligo/pg/flight"
)

// event is one line of Chrome's trace format, which Perfetto reads too. Times are microseconds.
type event struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	Rank     int            `json:"pid"`
	Thread   int            `json:"tid"`
	Time     float64        `json:"ts"`
	Duration *float64       `json:"dur,omitempty"`
	Color    string         `json:"cname,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// WriteTimeline writes what ranks did as a trace that chrome://tracing and Perfetto show. It has a process for each rank and
// a thread for each group. Operations that overlap lie in threads of their own, and operations that the report finds wrong
// are red. An operation that a rank has not called while others waited in it is there, too, and so is the end of a rank's
// process.
func WriteTimeline(w io.Writer, dumps map[int]*flight.Dump, r *Report) error {
	s := newScript(w)
	events := 0
	add := func(e event) {
		if events++; events > 1 {
			s.raw(",")
		}
		s.value(e)
	}
	thread := 0
	p := draw(dumps, r)
	s.raw(`{"traceEvents":[`)
	for i := range p.lanes {
		l := &p.lanes[i]
		if i == 0 || p.lanes[i-1].rank != l.rank {
			name := fmt.Sprintf("rank %d", l.rank)
			if l.noDump {
				name += ", no dump"
			}
			add(about("process_name", l.rank, 0, "name", name))
			add(about("process_sort_index", l.rank, 0, "sort_index", l.rank))
		}
		for row := range l.rows {
			add(about("thread_name", l.rank, thread+row, "name", l.group))
		}
		for j := range l.bars {
			add(l.bars[j].event(l, thread))
		}
		for _, x := range l.slots {
			add(x.event(l, thread))
		}
		thread += l.rows
	}
	s.raw(`],"displayTimeUnit":"ms","otherData":`)
	s.value(map[string]string{"verdict": r.Verdict(), "start_ns": fmt.Sprint(p.start)})
	s.raw("}\n")
	if err := s.flush(); err != nil {
		return fmt.Errorf("write timeline: %w", err)
	}
	return nil
}

// about says something about a process or a thread.
func about(what string, rank, thread int, key string, value any) event {
	return event{Name: what, Phase: "M", Rank: rank, Thread: thread, Args: map[string]any{key: value}}
}

// event is what a rank has not called, as an operation of its lane.
func (x *slot) event(l *lane, thread int) event {
	dur := float64(x.to-x.from) / 1000
	return event{Name: x.text, Category: l.group, Phase: "X", Rank: l.rank, Thread: thread + x.row, Time: float64(x.from) / 1000,
		Duration: &dur, Color: "terrible", Args: map[string]any{"state": "absent", "finding": clip(x.finding.Text, mostText)}}
}

func (b *bar) event(l *lane, thread int) event {
	e := b.entry
	dur := float64(b.to-b.from) / 1000
	args := map[string]any{"seq": e.Seq, "op_id": e.OpID, "record_id": e.ID, "state": e.State.String()}
	if t := tensors(e); t != "" {
		args["tensors"] = t
	}
	if at := place(e); at != "" {
		args["called at"] = at
	}
	if b.started >= 0 {
		args["waited_us"] = float64(b.started-b.from) / 1000
	}
	ev := event{Name: b.title(), Category: l.group, Phase: "X", Rank: l.rank, Thread: thread + b.row, Time: float64(b.from) / 1000,
		Duration: &dur, Args: args}
	if b.finding != nil {
		ev.Color = "terrible"
		args["finding"] = clip(b.finding.Text, mostText)
	}
	return ev
}
