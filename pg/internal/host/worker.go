package host

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo/internal/engine"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/transport"
)

// worker carries out the second lane of a long collective on a goroutine of its own, beside the progress engine, which carries out the
// first. A rank copies every byte, over TCP into the kernel and out of it, so two cores are nearly twice as fast as one.
//
// The goroutine lives as long as the collective. The progress engine starts it, looks whether it is done, and has it stop before the
// collective's memory goes back to the caller.
type worker struct {
	wait    transport.LaneWaiter
	wake    func()        // the progress engine
	run     func()        // the goroutine
	started bool          // and not yet stopped; the progress engine's
	stopped chan struct{} // the goroutine's last word
	stop    atomic.Bool   // the goroutine is to end
	over    atomic.Bool   // it has nothing more to do

	mu     sync.Mutex // held while it moves
	engine engine.Run
	err    error
}

const (
	workerLane  = 1
	workerBytes = 1 << 20 // of a tensor; a shorter one is hardly longer under way than a goroutine takes to begin
)

// newWorker returns that of a mesh, nil if no goroutine can have a lane of it.
func newWorker(mesh transport.Mesh) *worker {
	laned, ok := mesh.(transport.Laned)
	if !ok {
		return nil
	}
	wait := laned.Lane(workerLane)
	if wait == nil {
		return nil
	}
	w := &worker{wait: wait, wake: mesh.Wake, stopped: make(chan struct{}, 1)}
	w.run = w.advanceAll
	return w
}

// halve returns the two lanes of a plan as plans, nil if it has not two.
func halve(p *plan.Plan) *[2]plan.Plan {
	if len(p.Lanes) != 2 || len(p.Lanes[0]) == 0 || len(p.Lanes[1]) == 0 {
		return nil
	}
	halves := &[2]plan.Plan{*p, *p}
	halves[0].Lanes = [][]plan.Step{p.Lanes[0], nil}
	halves[1].Lanes = [][]plan.Step{nil, p.Lanes[1]}
	return halves
}

// start begins the second half of a collective.
func (w *worker) start(s *Start, weight float64, in, out, scratch []byte) {
	w.engine.Start(&s.Halves[1], s.Port, s.Kernel, in, out, scratch)
	w.engine.Weigh(weight)
	w.started, w.err = true, nil
	w.over.Store(false)
	w.stop.Store(false)
	go w.run()
}

// advanceAll is the goroutine. It ends when its half is done, has failed, or is to stop.
func (w *worker) advanceAll() {
	for idle := 0; !w.stop.Load(); {
		moved, over := w.advance()
		if over {
			break
		}
		if moved {
			idle = 0
			continue
		}
		idle++
		w.wait.Wait(idle, time.Time{})
	}
	w.over.Store(true)
	w.wake()
	w.stopped <- struct{}{}
}

// advance does what can be done now.
func (w *worker) advance() (moved, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	moved, w.err = w.engine.Advance()
	return moved, w.err != nil || w.engine.Done()
}

// done reports whether the second half is over, and its error. Without one it is.
func (w *worker) done() (bool, error) {
	if !w.started {
		return true, nil
	}
	if !w.over.Load() {
		return false, nil
	}
	return true, w.err
}

// end returns when the goroutine has ended, and drops what it has of the collective.
func (w *worker) end() {
	if !w.started {
		return
	}
	w.stop.Store(true)
	w.wait.Wake()
	<-w.stopped
	w.engine.Reset()
	w.started = false
}

// waiting returns the peers for which the second half waits.
func (w *worker) waiting() []int {
	if !w.started {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.engine.Waiting()
}

// addTo adds how far the second half has come to how far the first has.
func (w *worker) addTo(s *engine.Standing) {
	if !w.started {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	second := w.engine.Standing()
	s.Moved += second.Moved
	s.From = append(s.From, second.From...)
	for peer, n := range second.Sent {
		s.Sent[peer] += n
	}
	for peer, n := range second.Got {
		s.Got[peer] += n
	}
}
