package oplog

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets is the number of ranges in which durations are counted. The first ends at 1 µs, and each later one at four times
// the end before. The last but one ends at 1.2 hours; the last has no bound.
const Buckets = 18

// bucketOf returns the first bucket whose bound is not below d.
func bucketOf(d time.Duration) int {
	us := uint64(max(d-1, 0)) / uint64(time.Microsecond) // bounds are inclusive
	return min((bits.Len64(us)+1)/2, Buckets-1)
}

// Bound returns the upper bound of a bucket, 0 for the last and for what is no bucket.
func Bound(bucket int) time.Duration {
	if bucket < 0 || bucket >= Buckets-1 {
		return 0
	}
	return time.Microsecond << (2 * bucket)
}

// Counts are the operations of one type that have ended. Timed, Total, Longest and Durations are about those done whose
// duration is known; Durations[i] counts those up to Bound(i) and above the bound before.
type Counts struct {
	Done      uint64 // without error
	Failed    uint64
	Bytes     uint64 // of those done
	Timed     uint64
	Total     time.Duration
	Longest   time.Duration
	Durations [Buckets]uint64
}

// Counter counts operations of one type. Any number of goroutines may use it. An operation that is done counts once: as
// untimed, or in the range of its duration.
type Counter struct {
	failed, bytes, untimed, total, longest atomic.Uint64
	durations                              [Buckets]atomic.Uint64
}

// Fail counts an operation that has failed.
func (c *Counter) Fail() { c.failed.Add(1) }

// Done counts an operation that has ended without error. A negative duration is unknown.
func (c *Counter) Done(bytes int, took time.Duration) {
	c.bytes.Add(uint64(bytes))
	if took < 0 {
		c.untimed.Add(1)
		return
	}
	c.total.Add(uint64(took))
	c.durations[bucketOf(took)].Add(1)
	for was := c.longest.Load(); uint64(took) > was && !c.longest.CompareAndSwap(was, uint64(took)); {
		was = c.longest.Load()
	}
}

// Counts returns what has been counted. An operation that ends meanwhile may be there in part.
func (c *Counter) Counts() Counts {
	o := Counts{Failed: c.failed.Load(), Bytes: c.bytes.Load(), Total: time.Duration(c.total.Load()), Longest: time.Duration(c.longest.Load())}
	for i := range o.Durations {
		o.Durations[i] = c.durations[i].Load()
		o.Timed += o.Durations[i]
	}
	o.Done = o.Timed + c.untimed.Load()
	return o
}
