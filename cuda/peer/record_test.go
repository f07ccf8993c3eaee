package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	seam "github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/flight"
)

// patient is the context of tests that wait for a device.
func patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

// recorded runs blocking and asynchronous calls, the last of them timed, and looks at what is remembered of them.
func (r *rank) recorded() error {
	x := r.tensor(0, colligo.Float32, 0, 1000)
	if err := r.put(x, make([]byte, x.Size())); err != nil {
		return err
	}
	var heard []pg.WorkInfo
	r.g.OnCompletion(func(w pg.WorkInfo) { heard = append(heard, w) })
	works := make([]*pg.Work, 3)
	for i := range works {
		if err := r.g.AllReduce(r.ctx, x, colligo.Sum); err != nil {
			return err
		}
		r.g.SetTiming(i == 2)
		works[i] = r.g.AllReduceAsync(r.ctx, x, colligo.Sum)
	}
	ctx, cancel := patient()
	defer cancel()
	if err := r.g.WaitPending(ctx); err != nil {
		return fmt.Errorf("%d operations are pending: %w", r.g.Pending(), err)
	}
	return first(r.worksAre(works), func() error { return r.hooksHeard(heard) }, r.entriesAre)
}

// worksAre holds that the last of three works is timed.
func (r *rank) worksAre(works []*pg.Work) error {
	for i, w := range works {
		took, err := w.Duration()
		if !w.IsSuccess() || w.Seq() != uint64(2*i+2) || w.OpType() != pg.OpAllReduce || i == 2 && took <= 0 || i < 2 && err == nil {
			return fmt.Errorf("%v is a %v that took %v: %w", w, w.OpType(), took, errors.Join(err, w.Err()))
		}
	}
	return nil
}

func (r *rank) hooksHeard(heard []pg.WorkInfo) error {
	for i, w := range heard {
		if w.Op != pg.OpAllReduce || w.Seq != uint64(i+1) || w.Err != nil || w.Bytes != 4000 || (w.Active >= 0) != (i == 5) {
			return fmt.Errorf("a hook heard of %+v", w)
		}
	}
	m := r.g.Metrics().Ops["ALLREDUCE"]
	if len(heard) != 6 || m.Done != 6 || m.Timed != 1 {
		return fmt.Errorf("a hook heard of %d operations, the metrics are %+v", len(heard), m)
	}
	return nil
}

func (r *rank) entriesAre() error {
	es := r.g.Dump(flight.DumpOptions{Entries: true}).Entries
	if len(es) != 6 {
		return fmt.Errorf("%d entries: %+v", len(es), es)
	}
	for i, e := range es {
		if e.State != flight.Completed || !e.Retired || e.Name != "nccl:all_reduce" || e.Seq != uint64(i+1) ||
			!slices.Equal(e.InSizes[0], []int64{1000}) || (e.Duration >= 0) != (i == 5) {
			return fmt.Errorf("entry %d is %+v", i, e)
		}
	}
	return nil
}

// recordedPairs follows messages, each kind in an order of its own.
func (r *rank) recordedPairs() error {
	x := r.tensor(r.g.Rank()%2, colligo.Float32, 0, 1000)
	if err := r.g.Broadcast(r.ctx, x, 0); err != nil { // all ranks open the backend
		return err
	}
	for range 5 {
		var err error
		switch r.g.Rank() {
		case 0:
			err = r.g.Send(r.ctx, x, 1, 0)
		case 1:
			err = r.g.Recv(r.ctx, x, 0, 0)
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
	ctx, cancel := patient()
	defer cancel()
	err := r.g.WaitPending(ctx)
	for i, e := range r.g.Dump(flight.DumpOptions{Entries: true}).Entries[1:] {
		if e.State != flight.Completed || e.P2PSeq != uint64(i+1) || e.Seq != 1 || e.Name != []string{"nccl:send 0->1", "nccl:recv 1<-0"}[r.g.Rank()] {
			err = errors.Join(err, fmt.Errorf("entry %d is %+v", i, e))
		}
	}
	want := pg.PeerMetrics{Peer: 1 - r.g.Rank(), SentBytes: 5 * 4000, SentMessages: 5}
	if r.g.Rank() == 1 {
		want = pg.PeerMetrics{Peer: 0, ReceivedBytes: 5 * 4000, ReceivedMessages: 5}
	}
	if peers := r.g.Metrics().Peers; !slices.Equal(peers, []pg.PeerMetrics{want}) {
		err = errors.Join(err, fmt.Errorf("the counts by peer are %+v", peers))
	}
	return err
}

// recordedCapture leaves nothing pending of what a graph has captured.
func (r *rank) recordedCapture() error {
	x := r.tensor(0, colligo.Float32, 0, 1000)
	once := func() error { return r.g.AllReduce(r.ctx, x, colligo.Sum) }
	if err := first(r.put(x, make([]byte, x.Size())), once); err != nil {
		return err
	}
	var w *pg.Work
	graph, err := r.captured(func() error {
		w = r.g.AllReduceAsync(r.ctx, x, colligo.Sum)
		return first(w.Wait(r.ctx), once)
	})
	if err != nil {
		return err
	}
	ctx, cancel := patient()
	defer cancel()
	if err := r.g.WaitPending(ctx); err != nil {
		return err
	}
	if !errors.Is(w.Err(), seam.ErrCaptured) {
		return fmt.Errorf("the error is %w", w.Err())
	}
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	return first(r.launch(graph), func() error { return t.Synchronize(r.stream) }, func() error { return t.DestroyGraph(graph) })
}

// heardAtClose hears of what was on the device when the group was closed in peace.
func (r *rank) heardAtClose() error {
	heard := 0
	r.g.OnCompletion(func(w pg.WorkInfo) {
		if heard++; w.Err != nil {
			heard = -100
		}
	})
	x := r.tensor(0, colligo.Float32, 0, 1000)
	if err := r.put(x, make([]byte, x.Size())); err != nil {
		return err
	}
	for range 10 {
		if err := r.g.AllReduce(r.ctx, x, colligo.Sum); err != nil {
			return err
		}
		r.g.AllReduceAsync(r.ctx, x, colligo.Sum)
	}
	if err := r.g.Close(); err != nil || heard != 20 {
		return fmt.Errorf("heard of %d operations: %w", heard, err)
	}
	return nil
}

// recordings are what is recorded of operations on devices.
var recordings = map[string]func(*rank) error{
	"works": (*rank).recorded, "pairs": (*rank).recordedPairs, "capture": (*rank).recordedCapture, "close": (*rank).heardAtClose,
}

// TestRecorded follows what is on a device to its end, and counts none of the operations that the backend needs itself.
func TestRecorded(t *testing.T) {
	t.Parallel()
	for name, f := range recordings {
		for _, size := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s/ranks=%d", name, size), func(t *testing.T) {
				t.Parallel()
				onSim(t, size, small(Tiles), f)
			})
		}
	}
}

// TestRecordedAlone does so for a group of one rank.
func TestRecordedAlone(t *testing.T) {
	t.Parallel()
	onSim(t, 1, small(Tiles), (*rank).recorded)
}

func TestGPURecorded(t *testing.T) {
	d, n := gpus(t)
	for name, f := range recordings {
		t.Run(name, func(t *testing.T) { onRanks(t, d, max(n, 2), n, gpuHalf, Options{}, f) })
	}
}

// BenchmarkGPUFrontEnd measures what a blocking call costs the host, with and without the flight recorder.
func BenchmarkGPUFrontEnd(b *testing.B) {
	d, _ := gpus(b)
	for _, entries := range []int{2000, -1} {
		b.Run(fmt.Sprintf("entries=%d", entries), func(b *testing.B) {
			groups, err := pg.InProcess(b.Context(), 1, pg.Config{Recorder: pg.RecorderOptions{Entries: entries}})
			if err != nil {
				b.Fatal(err)
			}
			err = life(b.Context(), groups[0], d, 0, gpuHalf, Options{}, func(r *rank) error {
				x := r.tensor(0, colligo.Float32, 0, 1)
				b.ReportAllocs()
				for b.Loop() {
					if err := r.g.AllReduce(r.ctx, x, colligo.Sum); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}
