package debug

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/colligo-go/colligo/pg"
)

// metricsType is the content type of Prometheus' text format.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

func metrics(w http.ResponseWriter, _ *http.Request, groups []*pg.Group) {
	w.Header().Set("Content-Type", metricsType)
	_ = WriteMetrics(w, groups...) // an error is one of the connection
}

func metricsJSON(w http.ResponseWriter, _ *http.Request, groups []*pg.Group) {
	var all []json.RawMessage
	for _, g := range groups {
		all = append(all, json.RawMessage(g.Metrics().String()))
	}
	writeJSON(w, all)
}

// sample is what one group counts, as labels have it.
type sample struct {
	labels string
	failed bool
	size   int
	pg.Metrics
}

// WriteMetrics writes the counts of groups in Prometheus' text format, for programs with a page of their own. Durations are in
// seconds and sizes in bytes, as the names say. Durations are counted where they are known: blocking calls on the CPU always,
// and operations on devices with COLLIGO_ENABLE_TIMING. Bytes and messages by peer are what pg.PeerMetrics counts, for peers with whom
// something has passed.
func WriteMetrics(w io.Writer, groups ...*pg.Group) error {
	var all []sample
	for _, g := range groups {
		m := g.Metrics()
		all = append(all, sample{fmt.Sprintf(`group="%s",rank="%d"`, escaped(m.Group), m.Rank), g.Err() != nil, g.Size(), m})
	}
	b := bufio.NewWriter(w)
	family(b, "colligo_group_size", "gauge", "Ranks of the group.")
	for _, s := range all {
		fmt.Fprintf(b, "colligo_group_size{%s} %d\n", s.labels, s.size)
	}
	family(b, "colligo_group_failed", "gauge", "1 when the group has failed or is closed, 0 before.")
	for _, s := range all {
		failed := 0
		if s.failed {
			failed = 1
		}
		fmt.Fprintf(b, "colligo_group_failed{%s} %d\n", s.labels, failed)
	}
	family(b, "colligo_operations_pending", "gauge", "Operations that have been called and are not over.")
	for _, s := range all {
		fmt.Fprintf(b, "colligo_operations_pending{%s} %d\n", s.labels, s.Pending)
	}
	family(b, "colligo_operations_total", "counter", "Operations that have ended, by how.")
	each(all, func(labels string, o *pg.OpMetrics) {
		fmt.Fprintf(b, "colligo_operations_total{%s,result=\"done\"} %d\ncolligo_operations_total{%[1]s,result=\"failed\"} %[3]d\n", labels, o.Done, o.Failed)
	})
	family(b, "colligo_operation_bytes_total", "counter", "Bytes of the whole tensors of operations that are done.")
	each(all, func(labels string, o *pg.OpMetrics) {
		fmt.Fprintf(b, "colligo_operation_bytes_total{%s} %d\n", labels, o.Bytes)
	})
	family(b, "colligo_operation_duration_longest_seconds", "gauge", "Longest duration of an operation so far.")
	each(all, func(labels string, o *pg.OpMetrics) {
		fmt.Fprintf(b, "colligo_operation_duration_longest_seconds{%s} %s\n", labels, number(o.Longest.Seconds()))
	})
	family(b, "colligo_operation_duration_seconds", "histogram", "Durations of operations that are done, where they are known.")
	each(all, func(labels string, o *pg.OpMetrics) { histogram(b, labels, o) })
	for _, f := range byPeer {
		family(b, f.name, "counter", f.help)
		for _, s := range all {
			for i := range s.Peers {
				fmt.Fprintf(b, "%s{%s,peer=\"%d\"} %d\n", f.name, s.labels, s.Peers[i].Peer, f.of(&s.Peers[i]))
			}
		}
	}
	return b.Flush()
}

// byPeer are the counters that each peer has, of those with whom something has passed.
var byPeer = []struct {
	name, help string
	of         func(*pg.PeerMetrics) uint64
}{
	{"colligo_peer_sent_bytes_total", "Bytes of elements sent to a peer in operations that are done.", func(p *pg.PeerMetrics) uint64 { return p.SentBytes }},
	{"colligo_peer_sent_messages_total", "Messages sent to a peer: sends, and steps of collectives on the CPU.", func(p *pg.PeerMetrics) uint64 { return p.SentMessages }},
	{"colligo_peer_received_bytes_total", "Bytes of elements received from a peer in operations that are done.", func(p *pg.PeerMetrics) uint64 { return p.ReceivedBytes }},
	{"colligo_peer_received_messages_total", "Messages received from a peer: receives, and steps of collectives on the CPU.", func(p *pg.PeerMetrics) uint64 { return p.ReceivedMessages }},
}

// family begins the samples of one name.
func family(b *bufio.Writer, name, kind, help string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", name, help, kind)
}

// each calls f for each type of operation of each group.
func each(all []sample, f func(labels string, o *pg.OpMetrics)) {
	for _, s := range all {
		for _, name := range slices.Sorted(maps.Keys(s.Ops)) {
			o := s.Ops[name]
			f(fmt.Sprintf(`%s,operation="%s"`, s.labels, escaped(name)), &o)
		}
	}
}

// histogram writes counts of durations. A bucket of Prometheus' contains the counts of all shorter durations.
func histogram(b *bufio.Writer, labels string, o *pg.OpMetrics) {
	const name = "colligo_operation_duration_seconds"
	below := uint64(0)
	for i, n := range o.Durations {
		below += n
		bound := "+Inf"
		if d := pg.DurationBound(i); d > 0 {
			bound = number(d.Seconds())
		}
		fmt.Fprintf(b, "%s_bucket{%s,le=\"%s\"} %d\n", name, labels, bound, below)
	}
	fmt.Fprintf(b, "%s_sum{%s} %s\n%[1]s_count{%[2]s} %[4]d\n", name, labels, number(o.Total.Seconds()), below)
}

// number writes a number as short as it stays exact.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// escaped is a label's value as it stands between quotation marks.
func escaped(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text)
}
