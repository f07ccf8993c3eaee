package host

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// instant is a wire on which every collective is over as soon as its turn has come.
type instant struct{}

func (instant) Check(*op.Op) error { return nil }
func (instant) Poll() error        { return nil }
func (instant) Clear() bool        { return false }
func (instant) Withdraw()          {}

func (instant) Begin(o *op.Op, s *Start) error {
	s.Plan = &plan.Plan{Shape: plan.Shape{Coll: o.Coll, Size: 2}}
	return nil
}

func (instant) Message(*Message) (moved, over bool, err error) { return false, true, nil }

// sleepless is a mesh that nobody sleeps on.
type sleepless struct{}

func (sleepless) Wait(int, time.Time) { runtime.Gosched() }
func (sleepless) Wake()               {}
func (sleepless) String() string      { return "sleepless" }

// listener is a group that notes the order in which its operations end.
type listener struct {
	t     *testing.T
	ended []op.Seq // only the goroutine of the progress engine writes it
}

func (l *listener) Agree(*op.Op) (bool, error) { return true, nil }
func (l *listener) Begin(*op.Op)               {}
func (l *listener) Err() error                 { return nil }
func (l *listener) Late(*op.Op)                { l.t.Error("an operation is late") }
func (l *listener) Lingers(*op.Op)             {}
func (l *listener) Stalled(*op.Op)             {}

func (l *listener) Called(op.Seq) (transport.Call, bool) { return transport.Call{}, false }

func (l *listener) Fail(err error, _ op.Seq) bool {
	l.t.Error(err)
	return false
}

func (l *listener) Explain(_ *op.Op, _ op.Seq, cause error, _ bool) error { return cause }

func (l *listener) End(o *op.Op, _ *plan.Plan, err error) {
	if err != nil {
		l.t.Error(err)
	}
	l.ended = append(l.ended, o.Seq)
	o.Over = true
	if o.Done != nil {
		close(o.Done)
	}
}

// TestTurns has goroutines call operations, and not wait for some of them. Others ask where the collective at hand stands, and wait
// until the progress engine stops. Every operation ends, in the order of the calls, and every question gets its answer.
func TestTurns(t *testing.T) {
	const callers, calls = 4, 20_000
	l := &listener{t: t}
	b := New(Config{Name: "0", Size: 2, Group: l})
	b.UseWire(sleepless{}, instant{})
	var order sync.Mutex
	var last op.Seq
	call := func(async bool) *op.Op {
		order.Lock()
		last = last.Next(true)
		o := &op.Op{Coll: plan.Barrier, Seq: last, Limit: time.Hour}
		if async {
			o.Done = make(chan struct{})
		}
		o.AtOnce = !async && b.Claim()
		run := b.Enqueue(o)
		order.Unlock()
		if async {
			b.Start(run)
		} else {
			if b.Finish(o, run); !o.Over {
				t.Error("a call returned before its operation was over")
			}
		}
		return o
	}
	var all, asking sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			var pending []*op.Op
			for n := range calls {
				if o := call((n+i)%3 == 0); o.Done != nil {
					pending = append(pending, o)
				}
			}
			for _, o := range pending {
				<-o.Done
			}
		})
	}
	var over atomic.Bool
	var asked, answered atomic.Int64
	asking.Go(func() {
		for !over.Load() {
			if b.Inquire(func(Standing) { answered.Add(1) }) {
				asked.Add(1)
			}
			runtime.Gosched()
		}
	})
	asking.Go(func() {
		for !over.Load() {
			if idle := b.Idle(); idle != nil {
				<-idle
			}
			runtime.Gosched()
		}
	})
	all.Wait()
	over.Store(true)
	asking.Wait()
	if idle := b.Idle(); idle != nil {
		<-idle
	}
	require.False(t, b.Driven())
	require.Equal(t, asked.Load(), answered.Load())
	require.Len(t, l.ended, callers*calls)
	for i, at := range l.ended[1:] {
		require.Less(t, l.ended[i], at)
	}
}

// TestEnqueuedWhileHalting has an operation come when the goroutine of the progress engine has seen that nothing is left. It goes on
// with the operation, or who calls next does, and takes it before its own.
func TestEnqueuedWhileHalting(t *testing.T) {
	for name, sees := range map[string]bool{"it sees the operation": true, "the next caller does": false} {
		t.Run(name, func(t *testing.T) {
			l := &listener{t: t}
			b := New(Config{Name: "0", Size: 2, Group: l})
			b.UseWire(sleepless{}, instant{})
			first := &op.Op{Coll: plan.Barrier, Seq: op.Seq(0).Next(true)}
			second := &op.Op{Coll: plan.Barrier, Seq: first.Seq.Next(true)}
			require.True(t, b.Claim())
			require.False(t, b.Enqueue(first), "the engine seems to run")
			if sees {
				require.False(t, b.halt())
			} else {
				b.turns.Add(1) // it has looked before the operation came
			}
			require.False(t, b.Claim(), "the first operation is before any other")
			require.Equal(t, !sees, b.Enqueue(second), "whether the caller has to run the engine")
			b.progress(second)
			require.Equal(t, []op.Seq{first.Seq, second.Seq}, l.ended)
			require.False(t, b.Driven())
		})
	}
}

// TestIdle waits for the progress engine without a question: the channel is closed when the engine stops, and there is none while
// it stands still.
func TestIdle(t *testing.T) {
	b := New(Config{Name: "0", Size: 2})
	require.Nil(t, b.Idle())
	require.True(t, b.Claim())
	idle := b.Idle()
	require.NotNil(t, idle)
	require.Equal(t, idle, b.Idle())
	require.True(t, b.halt())
	_, open := <-idle
	require.False(t, open)
	require.Nil(t, b.Idle())
}

// TestInquireFailed asks where the collective at hand stands when there is none. The answer tells whether the group has failed.
func TestInquireFailed(t *testing.T) {
	b := New(Config{Name: "0", Size: 2})
	b.UseWire(sleepless{}, instant{})
	ask := func() (told Standing) {
		require.True(t, b.Claim())
		require.True(t, b.Inquire(func(s Standing) { told = s }))
		require.True(t, b.halt())
		return told
	}
	require.Equal(t, Standing{}, ask())
	require.True(t, b.Abort(op.Seq(0).Next(true), true))
	require.Equal(t, Standing{Failed: true}, ask())
}
