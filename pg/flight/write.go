package flight

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/colligo-go/colligo/pg/pickle"
)

// WritePickle writes the dump as PyTorch's file, for its analyzer and for Read.
func (d *Dump) WritePickle(w io.Writer) error {
	b, err := pickle.Append(nil, d.tree(false), 2)
	if err == nil {
		_, err = w.Write(b)
	}
	if err != nil {
		return fmt.Errorf("write flight dump: %w", err)
	}
	return nil
}

// WriteJSON writes the dump as PyTorch's JSON: times that are unknown are 0, and sequence numbers of the status are text. Unlike
// PyTorch's it has call stacks.
func (d *Dump) WriteJSON(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(d.tree(true)); err != nil {
		return fmt.Errorf("write flight dump: %w", err)
	}
	return nil
}

// dict makes a dict of keys and values in turn.
func dict(pairs ...any) *pickle.Dict {
	var d pickle.Dict
	for i := 0; i < len(pairs); i += 2 {
		d.Set(pairs[i], text(pairs[i+1]))
	}
	return &d
}

// text replaces what is not UTF-8 where a value is text. Descriptions, paths and errors may be anything, and a dump is
// written all the same.
func text(v any) any {
	if s, ok := v.(string); ok && !utf8.ValidString(s) {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return v
}

// tree is the dump as plain values. JSON's differs from the pickle's in a few of them.
func (d *Dump) tree(asJSON bool) *pickle.Dict {
	groups, status := dict(), dict()
	for _, name := range sorted(d.Groups) {
		g := d.Groups[name]
		groups.Set(text(name), dict("name", g.Name, "desc", g.Desc, "ranks", ranksText(g.Ranks)))
	}
	for _, pg := range sorted(d.Status) {
		s := d.Status[pg]
		t := dict("last_enqueued_collective", s.LastEnqueued, "last_started_collective", s.LastStarted,
			"last_completed_collective", s.LastCompleted)
		for key, seq := range t.All() {
			if asJSON {
				t.Set(key, strconv.FormatInt(seq.(int64), 10))
			}
		}
		status.Set(pg, t)
	}
	top := dict("version", d.Version, "comm_lib_version", d.Library, "pg_config", groups, "pg_status", status)
	if len(d.Comms) > 0 {
		comms := dict()
		for _, id := range sorted(d.Comms) {
			comms.Set(id, d.Comms[id])
		}
		top.Set("nccl_comm_state", comms)
	}
	if len(d.Failures) > 0 {
		failures := dict()
		for _, name := range sorted(d.Failures) {
			f := d.Failures[name]
			failure := dict("error", f.Text, "ranks", ranksText(f.Ranks))
			if f.Time != 0 {
				failure.Set("time_ns", f.Time)
			}
			failures.Set(text(name), failure)
		}
		top.Set("colligo_failures", failures)
	}
	if d.Taken != 0 {
		top.Set("colligo_time_ns", d.Taken)
	}
	if d.Entries != nil && (len(d.Entries) > 0 || !asJSON) {
		entries := make([]any, len(d.Entries))
		for i := range d.Entries {
			entries[i] = d.Entries[i].tree(asJSON)
		}
		top.Set("entries", entries)
	}
	return top
}

func (e *Entry) tree(asJSON bool) *pickle.Dict {
	t := dict("record_id", e.ID, "pg_id", e.PG, "process_group", pickle.Tuple{text(e.Group), text(e.Desc)}, "collective_seq_id", e.Seq,
		"p2p_seq_id", e.P2PSeq, "op_id", e.OpID, "profiling_name", e.Name, "time_created_ns", e.Created)
	if e.Duration >= 0 {
		t.Set("duration_ms", float64(e.Duration)/float64(time.Millisecond))
	}
	t.Set("input_sizes", list(e.InSizes))
	t.Set("input_dtypes", list(e.InTypes))
	t.Set("output_sizes", list(e.OutSizes))
	t.Set("output_dtypes", list(e.OutTypes))
	t.Set("state", e.State.String())
	t.Set("time_discovered_started_ns", known(e.DiscoveredStarted, asJSON))
	t.Set("time_discovered_completed_ns", known(e.DiscoveredCompleted, asJSON))
	t.Set("retired", e.Retired)
	t.Set("timeout_ms", e.Timeout.Milliseconds())
	t.Set("is_p2p", e.P2P)
	t.Set("thread_id", e.ThreadID)
	t.Set("thread_name", e.ThreadName)
	if e.Frames != nil {
		frames := make([]any, len(e.Frames))
		for i, f := range e.Frames {
			frames[i] = dict("name", f.Name, "filename", f.File, "line", f.Line)
		}
		t.Set("frames", frames)
	}
	if e.Tagged {
		t.Set("colligo_tag", int64(e.Tag))
	}
	return t
}

// list is a list also where a slice is nil.
func list[T any](s []T) []T { return append([]T{}, s...) }

// known is a time, or what stands for an unknown one.
func known(t int64, asJSON bool) any {
	if t == 0 && !asJSON {
		return nil
	}
	return t
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// ranksText is a list as Python prints it.
func ranksText(ranks []int) string {
	parts := make([]string, len(ranks))
	for i, r := range ranks {
		parts[i] = strconv.Itoa(r)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}
