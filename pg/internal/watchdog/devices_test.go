package watchdog

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/internal/oplog"
	"github.com/colligo-go/colligo/plan"
)

// never is a backend and an operation that is never done.
type never struct{}

func (never) Run(context.Context, *backend.Call) (backend.Pending, error) { return nil, nil }
func (never) Abort(error)                                                 {}
func (never) Close() error                                                { return nil }
func (never) Wait(context.Context) error                                  { return nil }
func (never) Synchronize(context.Context) error                           { return nil }
func (never) Done() bool                                                  { return false }

// whole is a group that has not failed.
type whole struct{}

func (whole) Err() error     { return nil }
func (whole) Late(*op.Op)    {}
func (whole) Freed(o *op.Op) {}
func (whole) Stalled(*op.Op) {}
func (whole) Lingers(*op.Op) {}

func (whole) Abandoned(*op.Op, int) {}

func (whole) Passed(op.Seq)            {}
func (whole) Left(plan.Coll, int, int) {}

// counted is an operation that is never done, and counts how often it is asked.
type counted struct {
	never
	asked *int
}

func (c counted) Done() bool { *c.asked++; return false }

// holding returns a watchdog that does not look by itself, with 10,000 asynchronous operations that are pending on a device.
func holding(p backend.Pending) *Devices {
	d := new(Devices)
	d.Open(whole{}, new(oplog.Log))
	d.ended = true
	for range 10_000 {
		o := &op.Op{Coll: plan.Barrier, Limit: time.Hour}
		o.Clock(time.Now())
		d.Add(d.CallsOf(never{}), o, p)
		d.Watch(o, p)
	}
	return d
}

// TestLookAsksTheFirst looks at 10,000 pending operations. As long as the first is not over a look asks for no other.
func TestLookAsksTheFirst(t *testing.T) {
	asked := 0
	d := holding(counted{asked: &asked})
	for looks := range 100 {
		before := asked
		require.Zero(t, d.look(false))
		require.Nil(t, d.deadlines.late(time.Now(), d.group.Freed))
		require.Greater(t, asked, before, "look %d asks for none", looks)
		require.LessOrEqual(t, asked, before+2, "look %d", looks)
	}
}

// BenchmarkLook measures one look at 10,000 asynchronous operations that are pending on a device. The look searches
// operations that are done, and the first that is late.
func BenchmarkLook(b *testing.B) {
	d := holding(never{})
	b.ReportAllocs()
	for b.Loop() {
		if d.look(false) > 0 || d.deadlines.late(time.Now(), d.group.Freed) != nil {
			b.Fatal("something is done or late")
		}
	}
}

// tracking is a backend that tells how many of its calls are over.
type tracking struct {
	never
	finished *atomic.Uint64
}

func (t tracking) Finished(plan.Coll) uint64 { return t.finished.Load() }

// TestLongQueue fills a queue while the watchdog pauses. It looks as soon as the queue is long, without the end of its pause.
func TestLongQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b tracking
		b.finished = new(atomic.Uint64)
		d := new(Devices)
		d.Open(whole{}, new(oplog.Log))
		d.Add(d.CallsOf(b), &op.Op{Coll: plan.Send}, nil)
		time.Sleep(20*longPause + shortPause/2) // until its pauses are long
		require.False(t, d.nothing())
		b.finished.Store(longQueue)
		for range longQueue - 2 {
			d.Add(d.CallsOf(b), &op.Op{Coll: plan.Send}, nil)
		}
		synctest.Wait()
		require.False(t, d.nothing(), "it looked before the queue was long")
		d.Add(d.CallsOf(b), &op.Op{Coll: plan.Send}, nil)
		synctest.Wait()
		require.True(t, d.nothing(), "it did not look")
		d.Add(d.CallsOf(b), &op.Op{Coll: plan.Send}, nil)
		time.Sleep(20*longPause + shortPause/2)
		require.False(t, d.nothing())
		b.finished.Store(3 * longQueue)
		for range longQueue + longQueue/2 {
			d.Add(d.CallsOf(b), &op.Op{Coll: plan.Send}, nil)
		}
		synctest.Wait()
		gone, _ := d.queues[sends].ends()
		require.Greater(t, gone, 2*longQueue-1, "it did not look the second time")
		d.Close()
	})
}

// TestEntry holds that an entry is one line of memory.
func TestEntry(t *testing.T) {
	t.Parallel()
	require.LessOrEqual(t, unsafe.Sizeof(entry{}), uintptr(64))
}

// TestNextPause has looks follow soon after one that found few operations over, and later in a busy group and an idle one.
func TestNextPause(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pause time.Duration
		over  int
		hurry bool
		want  time.Duration
	}{
		{longPause, 1, false, shortPause},
		{longPause, busyLook - 1, false, shortPause},
		{shortPause, busyLook, false, 2 * shortPause},
		{busyPause, 10_000, false, busyPause},
		{longPause, 10_000, false, busyPause},
		{busyPause, 10_000, true, shortPause},
		{shortPause, 0, false, 2 * shortPause},
		{longPause, 0, false, longPause},
		{longPause, 0, true, shortPause},
	} {
		require.Equal(t, c.want, nextPause(c.pause, c.over, c.hurry), "%+v", c)
	}
}
