package nccl_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/pg"
)

// TestCloseBesideOther has ranks of one process close a group one after the other, and go on at once to an operation of another group. The
// library frees the memory of both in the last one's call, for which their devices must be idle.
func TestCloseBesideOther(t *testing.T) {
	bothWays(t, func(t *testing.T, o nccl.Options, _ string) { closeBesideOther(t, o) })
}

func closeBesideOther(t *testing.T, o nccl.Options) {
	for name, make := range map[string]func(r *rank) (*pg.Group, error){
		"new": func(r *rank) (*pg.Group, error) { return r.NewGroup(r.ctx, []int{0, 1}) },
		"split": func(r *rank) (*pg.Group, error) {
			return r.SplitByColor(r.ctx, r.Rank()/2, r.Rank(), pg.GroupOptions{Device: r.device.Place()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			onRanks(t, 3, o, func(r *rank) error {
				x, err := r.moved(r.numbered(colligo.Float32, 100))
				if err != nil {
					return err
				}
				if err := r.AllReduce(r.ctx, x, colligo.Sum); err != nil {
					return err
				}
				g, err := make(r)
				if err != nil {
					return err
				}
				if g.IsMember() {
					if err := g.AllReduce(r.ctx, x, colligo.Sum); err != nil {
						return err
					}
				}
				if r.Rank() == 0 {
					time.Sleep(100 * time.Millisecond)
				}
				if err := g.Close(); err != nil {
					return err
				}
				return r.AllReduce(r.ctx, x, colligo.Sum)
			})
			require.Less(t, time.Since(begun), simPatience)
		})
	}
}
