package oplog

import (
	"math/bits"
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

// counter counts operations of one type. An operation that is done counts once: as untimed, or in the range of its duration.
type counter struct {
	failed, bytes, untimed uint64
	total, longest         time.Duration
	durations              [Buckets]uint64
}

// fail counts an operation that has failed.
func (c *counter) fail() { c.failed++ }

// done counts an operation that has ended without error. A negative duration is unknown.
func (c *counter) done(bytes int, took time.Duration) {
	c.bytes += uint64(bytes)
	if took < 0 {
		c.untimed++
		return
	}
	c.total += took
	c.longest = max(c.longest, took)
	c.durations[bucketOf(took)]++
}

// counts returns what has been counted.
func (c *counter) counts() Counts {
	o := Counts{Failed: c.failed, Bytes: c.bytes, Total: c.total, Longest: c.longest, Durations: c.durations}
	for _, n := range c.durations {
		o.Timed += n
	}
	o.Done = o.Timed + c.untimed
	return o
}
