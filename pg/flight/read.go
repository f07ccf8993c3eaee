package flight

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/colligo-go/colligo/pg/pickle"
)

// The most that a dump may have.
const (
	maxBytes   = 256 << 20
	maxValues  = 32 << 20
	maxRanks   = 1 << 20 // of a group
	maxMembers = 8 << 20 // of all groups together, whose lists may be one text
	maxEntries = 1 << 20 // for more that say something there are too few values
	maxDims    = 64      // of a tensor
	maxTensors = 1 << 20 // of an operation
)

// Read reads a dump as pickle or JSON, ours or PyTorch's of versions 2.2 to 2.10. Values that older versions lack are left
// zero, and keys that are not known are passed over. Values of another type than the format's are errors, and so are more
// than 256 MiB.
func Read(r io.Reader) (*Dump, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read flight dump: %w", err)
	}
	if len(b) > maxBytes {
		return nil, fmt.Errorf("read flight dump: more than %d MiB", maxBytes>>20)
	}
	var v any
	if trimmed := bytes.TrimLeft(b, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		v, err = readJSON(b)
	} else {
		v, err = pickle.Limits{Values: maxValues}.Unmarshal(b)
	}
	if err != nil {
		return nil, fmt.Errorf("read flight dump: %w", err)
	}
	d := &Dump{Groups: map[string]Group{}, Status: map[string]Status{}}
	if err := d.fill(v); err != nil {
		return nil, fmt.Errorf("read flight dump: %w", err)
	}
	return d, nil
}

// fill reads the top of a dump.
func (d *Dump) fill(v any) error {
	f, err := fieldsOf("the dump", v)
	if err != nil {
		return err
	}
	var groups, status, comms, failures *pickle.Dict
	var entries []any
	take(f, "version", &d.Version)
	take(f, "nccl_version", &d.Library)
	take(f, "comm_lib_version", &d.Library)
	take(f, "pg_config", &groups)
	take(f, "pg_status", &status)
	take(f, "nccl_comm_state", &comms)
	take(f, "colligo_failures", &failures)
	take(f, "colligo_time_ns", &d.Taken)
	take(f, "entries", &entries)
	if f.err != nil {
		return f.err
	}
	if !strings.HasPrefix(d.Version, "2.") {
		return fmt.Errorf("version %.20q is not read, only 2.2 to 2.10", d.Version)
	}
	return errors.Join(d.fillGroups(groups), d.fillStatus(status), d.fillComms(comms), d.fillFailures(failures), d.fillEntries(entries))
}

func (d *Dump) fillGroups(groups *pickle.Dict) error {
	members := 0
	for key, v := range pairs(groups) {
		name, ok := key.(string)
		f, err := fieldsOf("pg_config", v)
		if err != nil || !ok {
			return errors.Join(err, fmt.Errorf("pg_config: group %v", key))
		}
		g := Group{Name: name}
		var ranks string
		take(f, "name", &g.Name)
		take(f, "desc", &g.Desc)
		take(f, "ranks", &ranks)
		if g.Ranks, err = parseRanks(ranks); err != nil || f.err != nil {
			return errors.Join(f.err, err)
		}
		if members += len(g.Ranks); members > maxMembers {
			return fmt.Errorf("groups of more than %d ranks together", maxMembers)
		}
		d.Groups[name] = g
	}
	return nil
}

// parseRanks reads a list as Python prints it; empty text has none.
func parseRanks(s string) ([]int, error) {
	inner, open := strings.CutPrefix(s, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if open != closed || !open && s != "" {
		return nil, fmt.Errorf("ranks %.40q", s)
	}
	ranks := []int{}
	if strings.TrimSpace(inner) == "" {
		return ranks, nil
	}
	for field := range strings.SplitSeq(inner, ",") {
		r, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || r < 0 || r > math.MaxInt32 {
			return nil, fmt.Errorf("rank %.40q", field)
		}
		if ranks = append(ranks, r); len(ranks) > maxRanks {
			return nil, fmt.Errorf("a group of more than %d ranks", maxRanks)
		}
	}
	return ranks, nil
}

// fillStatus reads how far groups have come: numbers in a pickle, text in JSON.
func (d *Dump) fillStatus(status *pickle.Dict) error {
	for key, v := range pairs(status) {
		pg, ok := key.(string)
		f, err := fieldsOf("pg_status", v)
		if err != nil || !ok {
			return errors.Join(err, fmt.Errorf("pg_status: group %v", key))
		}
		s := Status{-1, -1, -1}
		takeNumber(f, "last_enqueued_collective", &s.LastEnqueued)
		takeNumber(f, "last_started_collective", &s.LastStarted)
		takeNumber(f, "last_completed_collective", &s.LastCompleted)
		if f.err != nil {
			return f.err
		}
		d.Status[pg] = s
	}
	return nil
}

func (d *Dump) fillComms(comms *pickle.Dict) error {
	for key, v := range pairs(comms) {
		id, ok := key.(string)
		inner, isDict := v.(*pickle.Dict)
		if !ok || !isDict {
			return fmt.Errorf("nccl_comm_state: %v", key)
		}
		values := map[string]string{}
		for k, v := range inner.All() {
			name, ok1 := k.(string)
			text, ok2 := v.(string)
			if !ok1 || !ok2 {
				return fmt.Errorf("nccl_comm_state of %.40s: %v is %T", id, k, v)
			}
			values[name] = text
		}
		if d.Comms == nil {
			d.Comms = map[string]map[string]string{}
		}
		d.Comms[id] = values
	}
	return nil
}

func (d *Dump) fillFailures(failures *pickle.Dict) error {
	members := 0
	for key, v := range pairs(failures) {
		name, ok := key.(string)
		f, err := fieldsOf("colligo_failures", v)
		if err != nil || !ok {
			return errors.Join(err, fmt.Errorf("colligo_failures: group %v", key))
		}
		var failure Failure
		var ranks string
		take(f, "error", &failure.Text)
		take(f, "ranks", &ranks)
		take(f, "time_ns", &failure.Time)
		if failure.Ranks, err = parseRanks(ranks); err != nil || f.err != nil {
			return errors.Join(f.err, err)
		}
		if members += len(failure.Ranks); members > maxMembers {
			return fmt.Errorf("failures of more than %d ranks together", maxMembers)
		}
		if d.Failures == nil {
			d.Failures = map[string]Failure{}
		}
		d.Failures[name] = failure
	}
	return nil
}

func (d *Dump) fillEntries(entries []any) error {
	if len(entries) > maxEntries {
		return fmt.Errorf("%d entries, the limit is %d", len(entries), maxEntries)
	}
	if entries != nil {
		d.Entries = make([]Entry, len(entries))
	}
	for i, v := range entries {
		if err := d.Entries[i].fill(v); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return nil
}

func (e *Entry) fill(v any) error {
	f, err := fieldsOf("entry", v)
	if err != nil {
		return err
	}
	var group, inSizes, inTypes, outSizes, outTypes, frames []any
	var state string
	duration, timeout := -1.0, int64(0)
	take(f, "record_id", &e.ID)
	takeCount(f, "pg_id", &e.PG)
	takeList(f, "process_group", &group)
	takeCount(f, "collective_seq_id", &e.Seq)
	takeCount(f, "p2p_seq_id", &e.P2PSeq)
	takeCount(f, "op_id", &e.OpID)
	take(f, "profiling_name", &e.Name)
	take(f, "time_created_ns", &e.Created)
	takeFloat(f, "duration_ms", &duration)
	takeList(f, "input_sizes", &inSizes)
	takeList(f, "input_dtypes", &inTypes)
	takeList(f, "output_sizes", &outSizes)
	takeList(f, "output_dtypes", &outTypes)
	take(f, "state", &state)
	take(f, "time_discovered_started_ns", &e.DiscoveredStarted)
	take(f, "time_discovered_completed_ns", &e.DiscoveredCompleted)
	take(f, "retired", &e.Retired)
	take(f, "timeout_ms", &timeout)
	take(f, "is_p2p", &e.P2P)
	take(f, "thread_id", &e.ThreadID)
	take(f, "thread_name", &e.ThreadName)
	takeList(f, "frames", &frames)
	takeTag(f, e)
	if f.err != nil {
		return f.err
	}
	e.Duration = limited(duration * float64(time.Millisecond))
	e.Timeout = limited(float64(timeout) * float64(time.Millisecond))
	return errors.Join(e.fillGroup(group), e.fillState(state), e.fillFrames(frames),
		fillSizes(&e.InSizes, inSizes), fillSizes(&e.OutSizes, outSizes), fillTexts(&e.InTypes, inTypes), fillTexts(&e.OutTypes, outTypes))
}

// takeTag reads the tag of a send or receive; an entry without one has none.
func takeTag(f *fields, e *Entry) {
	const key = "colligo_tag"
	if f.value(key) == nil {
		return
	}
	tag := int64(0)
	if take(f, key, &tag); int64(int32(tag)) != tag {
		f.wrong(key, tag)
		return
	}
	e.Tag, e.Tagged = int32(tag), true
}

// limited is a duration that may come from a hostile number.
func limited(ns float64) time.Duration {
	return time.Duration(math.Round(max(-1, min(ns, float64(math.MaxInt64/2)))))
}

func (e *Entry) fillGroup(group []any) error {
	if group == nil {
		return nil
	}
	var names []string
	if err := fillTexts(&names, group); err != nil || len(names) != 2 {
		return errors.Join(err, fmt.Errorf("process_group has %d values", len(group)))
	}
	e.Group, e.Desc = names[0], names[1]
	return nil
}

func (e *Entry) fillState(name string) error {
	if name == "" {
		return nil
	}
	for s := Scheduled; s <= Completed; s++ {
		if name == s.String() {
			e.State = s
			return nil
		}
	}
	return fmt.Errorf("state %.40q", name)
}

func (e *Entry) fillFrames(frames []any) error {
	for _, v := range frames {
		f, err := fieldsOf("frame", v)
		if err != nil {
			return err
		}
		var frame Frame
		take(f, "name", &frame.Name)
		take(f, "filename", &frame.File)
		takeCount(f, "line", &frame.Line)
		if f.err != nil {
			return f.err
		}
		e.Frames = append(e.Frames, frame)
	}
	return nil
}

func fillSizes(to *[][]int64, from []any) error {
	if len(from) > maxTensors {
		return fmt.Errorf("%d tensors, the limit is %d", len(from), maxTensors)
	}
	for _, v := range from {
		dims, ok := asList(v)
		if !ok || len(dims) > maxDims {
			return fmt.Errorf("a tensor's sizes are %T of %d", v, len(dims))
		}
		sizes := make([]int64, len(dims))
		for i, n := range dims {
			if sizes[i], ok = n.(int64); !ok || sizes[i] < 0 {
				return fmt.Errorf("a tensor's size is %v", n)
			}
		}
		*to = append(*to, sizes)
	}
	return nil
}

func fillTexts(to *[]string, from []any) error {
	for _, v := range from {
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("%T in a list of texts", v)
		}
		*to = append(*to, s)
	}
	return nil
}
