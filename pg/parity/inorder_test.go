package parity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// TestReceivesInOrder has receives of one tag pending while their messages come. A message belongs to the receive that was called first, also
// where it comes while the progress engine looks at them.
func TestReceivesInOrder(t *testing.T) {
	const pending = 40
	run := func(rounds int) func(r *rank) {
		return func(r *rank) {
			for round := range rounds {
				var works []*pg.Work
				var ins []colligo.Tensor
				for i := range pending {
					if r.Rank() == 1 {
						works = append(works, r.SendAsync(r.ctx, full(r, 1, int64(round*pending+i)), 0, 7))
						continue
					}
					in := full(r, 1, int64(0))
					works = append(works, r.RecvAsync(r.ctx, in, 1, 7))
					ins = append(ins, in)
				}
				for _, w := range works {
					require.NoError(r.t, w.Synchronize(r.ctx))
				}
				for i, in := range ins {
					require.Equal(r.t, []int64{int64(round*pending + i)}, values[int64](r, in), "round %d, receive %d", round, i)
				}
				if r.gpu != nil {
					r.arena.used = 0
				}
			}
		}
	}
	each(t, 2, run(5))
	eachWith(t, 2, options{onlyCPU: true, noSim: true}, run(1000))
	jobOf(t, "cpu", 2, func(m *mortal) { run(1000)(m.rank) })
}
