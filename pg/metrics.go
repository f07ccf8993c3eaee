package pg

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/internal/oplog"
)

// DurationBound returns the upper bound of a bucket of OpMetrics.Durations, 0 for the last, which has none. No twin in c10d.
func DurationBound(bucket int) time.Duration { return oplog.Bound(bucket) }

// OpMetrics counts the operations of one type. No twin in c10d.
type OpMetrics struct {
	Done   uint64 `json:"done"` // without error
	Failed uint64 `json:"failed"`
	Bytes  uint64 `json:"bytes"` // of the whole tensors of those done
	// Timed are those done whose duration is known. Total, Longest and Durations are about them. Durations[i] counts those that
	// took no longer than DurationBound(i), and longer than the bound before.
	Timed     uint64                `json:"timed"`
	Total     time.Duration         `json:"total_ns"`
	Longest   time.Duration         `json:"longest_ns"`
	Durations [oplog.Buckets]uint64 `json:"duration_counts"`
}

// PeerMetrics counts what has passed between this rank and one peer in operations that are done: sends and receives, and collectives
// on the CPU. A message is a send or a receive, or what one step of a collective's algorithm sends at once. Bytes are those of
// elements, without headers and before compression. Collectives on devices are not counted by peer; their data goes where links
// between the devices take it. No twin in c10d.
type PeerMetrics struct {
	Peer             int    `json:"peer"` // rank in the group
	SentBytes        uint64 `json:"sent_bytes"`
	SentMessages     uint64 `json:"sent_messages"`
	ReceivedBytes    uint64 `json:"received_bytes"`
	ReceivedMessages uint64 `json:"received_messages"`
}

// Metrics is what a group has done so far. Its String is JSON. No twin in c10d.
type Metrics struct {
	Group   string               `json:"group"`
	Rank    int                  `json:"rank"`
	Pending int                  `json:"pending"`    // called and not over
	Ops     map[string]OpMetrics `json:"operations"` // by c10d's name of the type, such as "ALLREDUCE"; without those never called
	Peers   []PeerMetrics        `json:"peers"`      // in order of their ranks, without those with whom nothing has passed
	// Carried is the collectives that each backend was given where several share a device, as the fast path within a host and NCCL do.
	Carried map[string]uint64 `json:"carried,omitempty"`
}

// Metrics returns the group's counts at this moment. It waits for nothing; operations that end meanwhile may be counted in
// part. It works on a failed group, too. No twin in c10d.
func (g *Group) Metrics() Metrics {
	if g == nil {
		return Metrics{Rank: colligo.NoRank}
	}
	m := Metrics{Group: g.name, Rank: g.rank, Pending: g.Pending(), Ops: map[string]OpMetrics{}, Peers: []PeerMetrics{}}
	for t := range op.NumTypes {
		if o := g.ops.Counts(t); o.Done+o.Failed > 0 {
			m.Ops[t.String()] = OpMetrics(o)
		}
	}
	for peer, p := range g.ops.Peers() {
		if p.SentMessages+p.ReceivedMessages > 0 {
			m.Peers = append(m.Peers, PeerMetrics{peer, p.SentBytes, p.SentMessages, p.ReceivedBytes, p.ReceivedMessages})
		}
	}
	m.Carried = g.devices.carried()
	return m
}

// String is the metrics as JSON, with names in snake_case that give the unit. The bounds of duration_counts are in
// duration_bounds_ns; the last count has none.
func (m Metrics) String() string {
	b, err := json.Marshal(struct {
		Metrics
		Bounds []time.Duration `json:"duration_bounds_ns"`
	}{m, durationBounds()})
	if err != nil {
		panic("pg: metrics: " + err.Error())
	}
	return string(b)
}

func durationBounds() (all []time.Duration) {
	for i := 0; DurationBound(i) > 0; i++ {
		all = append(all, DurationBound(i))
	}
	return all
}

// MetricsVar returns a value whose String is the group's Metrics of the moment as JSON. Function expvar.Publish takes it. No
// twin in c10d.
func (g *Group) MetricsVar() fmt.Stringer { return metricsVar{g} }

type metricsVar struct{ g *Group }

// String is the metrics now.
func (v metricsVar) String() string { return v.g.Metrics().String() }
