package peer

import (
	"testing"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
)

// TestFirstAsync uses the streams of asynchronous operations as soon as they are made, by ranks that share a device.
func TestFirstAsync(t *testing.T) {
	t.Parallel()
	firstAsync(t, simulated(t, 1).Driver())
}

// TestGPUFirstAsync does so on a device. There, streams that were new have kept the messages back for ever, in one of some 400 groups: -count makes
// so many.
func TestGPUFirstAsync(t *testing.T) {
	d, _ := gpus(t)
	firstAsync(t, d)
}

// firstAsync has two ranks start a sum, a send and a receive before they wait for any.
func firstAsync(t *testing.T, d *cuda.Driver) {
	const n = 1000
	onRanks(t, d, 2, 1, simHalf, Options{}, func(r *rank) error {
		own := values(colligo.Float32, colligo.KindSum, r.g.Rank(), n)
		sum, out, in := r.tensor(0, colligo.Float32, 0, n), r.tensor(0, colligo.Float32, n+margin, n), r.tensor(1, colligo.Float32, 0, n)
		want, err := reduced(colligo.Float32, colligo.Sum, 2, n)
		if err := first(err, func() error { return r.put(sum, own) }, func() error { return r.put(out, own) },
			func() error { return r.put(in, make([]byte, in.Size())) }); err != nil {
			return err
		}
		peer := 1 - r.g.Rank()
		for _, w := range []*pg.Work{r.g.AllReduceAsync(r.ctx, sum, colligo.Sum), r.g.SendAsync(r.ctx, out, peer, 0), r.g.RecvAsync(r.ctx, in, peer, 0)} {
			err = first(err, func() error { return w.Synchronize(r.ctx) })
		}
		return first(err,
			func() error { return r.expect("the sum", sum, want) },
			func() error { return r.expect("the message", in, values(colligo.Float32, colligo.KindSum, peer, n)) })
	})
}
