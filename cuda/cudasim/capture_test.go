package cudasim_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// Two streams in one graph: a kernel adds one on each device, copies go between them, and replays add up.
func TestGraphReplays(t *testing.T) {
	seeds(t, 10, func(t *testing.T, seed uint64) {
		r := newRig(t, cudasim.Config{Devices: 2, Seed: seed})
		c := newScene(r)
		add := func(l *cudasim.Launch) {
			at := cudasim.Args[number](l).N
			v := l.Load(at, 4)[0]
			l.Store(at, 4)[0] = v + 1
		}
		f := [2]cuda.Function{r.function(0, "add", 8, add), r.function(1, "add", 8, add)}
		var g cuda.GraphExec
		one := cuda.Grid{Blocks: 1, Threads: 32}
		r.on(0, func(th cuda.Thread) {
			c.must(th.BeginCapture(c.s, cuda.CaptureThreadLocal))
			c.must(th.Launch(f[0], one, args(number{uint64(c.a)}), c.s))
			c.copy(c.s, c.b, c.a, 4)
			c.record(c.e, c.s)
			c.wait(c.u, c.e)
			r.on(1, func(th cuda.Thread) { c.must(th.Launch(f[1], one, args(number{uint64(c.b)}), c.u)) })
			c.write32(c.u, c.flags, 1)
			c.wait32(c.s, c.flags, 1)
			c.copy(c.u, c.a, c.b, 4)
			c.record(c.f, c.u)
			c.wait(c.s, c.f)
			status, id, err := th.Capturing(c.u)
			c.must(err)
			require.Equal(t, cuda.CaptureActive, status)
			require.NotZero(t, id)
			g, err = th.EndCapture(c.s)
			c.must(err)
		})
		require.Equal(t, []uint32{0}, r.words(0, c.a, 1), "captured is not run")
		r.on(0, func(th cuda.Thread) {
			for range 10 {
				c.must(th.LaunchGraph(g, c.s))
			}
			c.must(th.Synchronize(c.s))
			c.must(th.DestroyGraph(g))
		})
		require.Equal(t, []uint32{20}, r.words(0, c.a, 1))
	})
}

// Order that a graph lacks is a race in each replay, reported with the place where it was captured.
func TestRaceInGraph(t *testing.T) {
	seeds(t, 10, func(t *testing.T, seed uint64) {
		r := looseRig(t, cudasim.Config{Devices: 2, Seed: seed})
		c := newScene(r)
		r.on(0, func(th cuda.Thread) {
			c.must(th.BeginCapture(c.s, cuda.CaptureRelaxed))
			c.record(c.e, c.s)
			c.wait(c.u, c.e)
			c.set(c.s, c.a)
			c.copy(c.u, c.b, c.a, 64)
			c.record(c.f, c.u)
			c.wait(c.s, c.f)
			g, err := th.EndCapture(c.s)
			c.must(err)
			c.must(th.LaunchGraph(g, c.s))
			c.must(th.Synchronize(c.s))
			c.must(th.DestroyGraph(g))
		})
		require.Len(t, r.sim.Races(), 1)
		require.Contains(t, r.sim.Races()[0].String(), "MemsetD8Async (graph) on device 0")
		require.Contains(t, r.sim.Races()[0].String(), "(*scene).set")
		r.close()
	})
}

const (
	invalidated cuda.Result = 901
	unmatched   cuda.Result = 903
	unjoined    cuda.Result = 904
	isolation   cuda.Result = 905
	event       cuda.Result = 907
	thread      cuda.Result = 908
)

var refusals = []struct {
	name string
	mode cuda.CaptureMode
	call func(c *scene, th cuda.Thread) error
	want cuda.Result
	end  cuda.Result
}{
	{"synchronize", cuda.CaptureRelaxed, func(c *scene, th cuda.Thread) error { return th.Synchronize(c.s) }, cuda.StreamCaptureUnsupported, invalidated},
	{"allocation", cuda.CaptureGlobal, func(_ *scene, th cuda.Thread) error { _, err := th.Alloc(8); return err }, cuda.StreamCaptureUnsupported, invalidated},
	{"query elsewhere", cuda.CaptureGlobal, func(c *scene, _ cuda.Thread) error {
		return elsewhere(c, func(th cuda.Thread) error { _, err := th.EventDone(c.f); return err })
	}, cuda.StreamCaptureUnsupported, invalidated},
	{"query elsewhere, local capture", cuda.CaptureThreadLocal, func(c *scene, _ cuda.Thread) error {
		return elsewhere(c, func(th cuda.Thread) error { _, err := th.EventDone(c.f); return err })
	}, cuda.Success, cuda.Success},
	{"query elsewhere, relaxed there", cuda.CaptureGlobal, func(c *scene, _ cuda.Thread) error {
		return elsewhere(c, func(th cuda.Thread) error {
			before, err := th.ExchangeCaptureMode(cuda.CaptureRelaxed)
			require.NoError(c.t, err)
			_, err = th.EventDone(c.f)
			_, err2 := th.ExchangeCaptureMode(before)
			require.NoError(c.t, err2)
			return err
		})
	}, cuda.Success, cuda.Success},
	{"query of a captured event", cuda.CaptureRelaxed, func(c *scene, th cuda.Thread) error {
		c.record(c.e, c.s)
		_, err := th.EventDone(c.e)
		return err
	}, event, invalidated},
	{"other stream left out", cuda.CaptureRelaxed, func(c *scene, _ cuda.Thread) error {
		c.record(c.e, c.s)
		c.wait(c.u, c.e)
		c.set(c.u, c.b)
		return nil
	}, cuda.Success, unjoined},
	{"event from outside", cuda.CaptureRelaxed, func(c *scene, th cuda.Thread) error {
		c.record(c.f, c.u)
		return th.WaitEvent(c.s, c.f)
	}, isolation, invalidated},
	{"end of another stream", cuda.CaptureRelaxed, func(c *scene, th cuda.Thread) error {
		c.record(c.e, c.s)
		c.wait(c.u, c.e)
		_, err := th.EndCapture(c.u)
		return err
	}, unmatched, cuda.Success},
	{"end elsewhere", cuda.CaptureThreadLocal, func(c *scene, _ cuda.Thread) error {
		return elsewhere(c, func(th cuda.Thread) error { _, err := th.EndCapture(c.s); return err })
	}, thread, cuda.Success},
}

func TestCaptureRefusals(t *testing.T) {
	for _, k := range refusals {
		t.Run(k.name, func(t *testing.T) {
			c := newScene(newRig(t, cudasim.Config{Devices: 2}))
			c.on(0, func(th cuda.Thread) {
				c.must(th.BeginCapture(c.s, k.mode))
				requireResult(t, k.want, k.call(c, th))
				g, err := th.EndCapture(c.s)
				requireResult(t, k.end, err)
				if err == nil {
					c.must(th.DestroyGraph(g))
				}
			})
		})
	}
}

func requireResult(t *testing.T, want cuda.Result, err error) {
	t.Helper()
	if want == cuda.Success {
		require.NoError(t, err)
		return
	}
	require.ErrorIs(t, err, want)
}

// elsewhere makes a call on another thread.
func elsewhere(c *scene, f func(cuda.Thread) error) (err error) {
	var other sync.WaitGroup
	other.Go(func() {
		c.on(0, func(th cuda.Thread) { err = f(th) })
	})
	other.Wait()
	return err
}
