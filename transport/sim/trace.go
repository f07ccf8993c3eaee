package sim

import (
	"fmt"
	"time"
)

// Event is something that a network has done.
type Event struct {
	At    time.Duration // since the network began
	What  string        // "frame", "note", "lost" or "fault"
	Frame Frame         // frame, note: what was delivered; lost: who left (Src) and who knows (Dst, -1: all)
	Text  string        // lost: why; fault: what Fault.Do says
}

// String says it on one line, such as "1.5ms frame group 1, 0>1 lane 2 #7, 1024 bytes".
func (e Event) String() string {
	f := &e.Frame
	switch e.What {
	case "fault":
		return fmt.Sprintf("%v fault %s", e.At, e.Text)
	case "lost":
		return fmt.Sprintf("%v lost group %d, %d>%d: %s", e.At, f.Group, f.Src, f.Dst, e.Text)
	case "note":
		return fmt.Sprintf("%v note group %d, %d>%d #%d, %d bytes", e.At, f.Group, f.Src, f.Dst, f.Index, f.Bytes)
	}
	return fmt.Sprintf("%v %s group %d, %d>%d lane %d #%d, %d bytes", e.At, e.What, f.Group, f.Src, f.Dst, f.Lane, f.Index, f.Bytes)
}

// trace reports an event that happens.
func (n *Net) trace(e *event) {
	if n.config.Trace == nil {
		return
	}
	t := Event{At: e.at, What: "frame", Frame: Frame{Group: e.from.group.id, Src: e.src, Dst: e.dst, Lane: e.lane,
		Index: e.index, Bytes: e.bytes}}
	switch e.kind {
	case isNote:
		t.What = "note"
	case isCut:
		t.What, t.Text = "lost", e.err.Err.Error()
	case isGone:
		t.What, t.Text, t.Frame.Dst = "lost", e.err.Err.Error(), -1
	}
	n.config.Trace(t)
}

func (n *Net) traceFault(f Fault) {
	if n.config.Trace != nil {
		n.config.Trace(Event{At: f.At, What: "fault", Text: f.Do})
	}
}
