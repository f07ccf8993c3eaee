package pg

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
)

// durationBuckets is the number of bounds by which durations are counted: 1 µs, and each four times the one before, up to
// 4.6 hours at the last but one.
const durationBuckets = 18

// bucketOf returns the first bucket whose bound is not below d.
func bucketOf(d time.Duration) int {
	us := uint64(max(d-1, 0)) / uint64(time.Microsecond) // bounds are inclusive
	return min((bits.Len64(us)+1)/2, durationBuckets-1)
}

// DurationBound returns the upper bound of a bucket of OpMetrics.Durations, 0 for the last, which has none.
func DurationBound(bucket int) time.Duration {
	if bucket < 0 || bucket >= durationBuckets-1 {
		return 0
	}
	return time.Microsecond << (2 * bucket)
}

// OpMetrics counts the operations of one type.
type OpMetrics struct {
	Done   uint64 // without error
	Failed uint64
	Bytes  uint64 // of the whole tensors of those done
	// Timed are those done whose duration is known. Total, Longest and Durations are about them. Durations[i] counts those that
	// took no longer than DurationBound(i), and longer than the bound before.
	Timed     uint64
	Total     time.Duration
	Longest   time.Duration
	Durations [durationBuckets]uint64
}

// Metrics is what a group has done so far. Its String is JSON.
type Metrics struct {
	Group   string
	Rank    int
	Pending int                  // called and not over
	Ops     map[string]OpMetrics // by c10d's name of the type, such as "ALLREDUCE"; without those never called
}

// Metrics returns the group's counts. Operations that end meanwhile may be counted in part.
func (g *Group) Metrics() Metrics {
	if g == nil {
		return Metrics{Rank: colligo.NoRank}
	}
	m := Metrics{Group: g.name, Rank: g.rank, Pending: g.Pending(), Ops: map[string]OpMetrics{}}
	for t := range numOpTypes {
		if o := g.ledger.metrics[t].snapshot(); o.Done+o.Failed > 0 {
			m.Ops[t.String()] = o
		}
	}
	return m
}

// String is the metrics as JSON, with durations in nanoseconds.
func (m Metrics) String() string {
	b, err := json.Marshal(m)
	if err != nil {
		panic("pg: metrics: " + err.Error())
	}
	return string(b)
}

// MetricsVar returns a value whose String is the group's metrics of the moment as JSON: what expvar.Publish takes.
func (g *Group) MetricsVar() fmt.Stringer { return metricsVar{g} }

type metricsVar struct{ g *Group }

// String is the metrics now.
func (v metricsVar) String() string { return v.g.Metrics().String() }

// metrics are the counts of a group by type.
type metrics [numOpTypes]opCounts

type opCounts struct {
	done, failed, bytes, timed, total, longest atomic.Uint64
	durations                                  [durationBuckets]atomic.Uint64
}

// add counts an operation that is over; took is negative if it is not known.
func (m *metrics) add(rec *record, took time.Duration, err error) {
	if rec.kind >= numOpTypes {
		return
	}
	c := &m[rec.kind]
	if err != nil {
		c.failed.Add(1)
		return
	}
	c.done.Add(1)
	c.bytes.Add(uint64(rec.bytes))
	if took < 0 {
		return
	}
	c.timed.Add(1)
	c.total.Add(uint64(took))
	c.durations[bucketOf(took)].Add(1)
	for was := c.longest.Load(); uint64(took) > was && !c.longest.CompareAndSwap(was, uint64(took)); {
		was = c.longest.Load()
	}
}

func (c *opCounts) snapshot() OpMetrics {
	o := OpMetrics{Done: c.done.Load(), Failed: c.failed.Load(), Bytes: c.bytes.Load(), Timed: c.timed.Load(),
		Total: time.Duration(c.total.Load()), Longest: time.Duration(c.longest.Load())}
	for i := range o.Durations {
		o.Durations[i] = c.durations[i].Load()
	}
	return o
}
