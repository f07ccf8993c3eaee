package parity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// TestLostWhileOpening has a rank die, abort, leave or stay away, while the others are in the group's first call. That opens what carries it, such
// as NCCL's communicator, and waits for all ranks. Everyone ends soon, and the error names the rank.
func TestLostWhileOpening(t *testing.T) {
	beside(t)
	for _, medium := range []string{"cpu", "peer", "staged", "nccl"} {
		for _, victim := range []int{0, 2} {
			for way, is := range map[string]error{"dies": colligo.ErrPeerLost, "aborts": pg.ErrAborted, "closes": colligo.ErrPeerLost,
				"stays away": colligo.ErrTimeout} {
				t.Run(fmt.Sprintf("medium=%s/victim=%d/%s", medium, victim, way), func(t *testing.T) {
					beside(t)
					jobOf(t, medium, 3, func(m *mortal) {
						m.meets("begin", m.Rank(), []int{0, 1, 2})
						if m.Rank() == victim {
							time.Sleep(200 * time.Millisecond)
							switch way {
							case "dies":
								m.die(victim)
							case "aborts":
								m.Abort(errors.New("because of the moon"))
							case "closes":
								require.NoError(m.t, m.Close())
							default:
								<-m.failed()
							}
							return
						}
						began := time.Now()
						if is == colligo.ErrTimeout {
							require.NoError(m.t, m.SetTimeout(6*time.Second))
						}
						err := m.AllReduceAsync(m.ctx, full(m.rank, 10, float32(1)), colligo.Sum).Synchronize(context.Background())
						require.ErrorIs(m.t, err, is)
						require.ErrorContains(m.t, err, fmt.Sprint("rank ", victim))
						require.Less(m.t, time.Since(began), 20*time.Second)
					})
				})
			}
		}
	}
}

// TestLostWhileForming has a rank die when all have met that make a communicator of NCCL. Rank 0 dies before it has put its identity into the
// store, where the others wait for that. Rank 2 dies when it asks for it, while the others wait for rank 2 in NCCL. Other media have no
// communicator.
func TestLostWhileForming(t *testing.T) {
	beside(t)
	for _, victim := range []int{0, 2} {
		t.Run(fmt.Sprint("victim=", victim), func(t *testing.T) {
			beside(t)
			var dying *mortal
			j := newJob(t, "nccl", 3)
			j.asks = func(rank int, key string) error {
				if rank != victim || !strings.Contains(key, "nccl/") {
					return nil
				}
				time.Sleep(100 * time.Millisecond) // the others wait
				dying.die(victim)
				return errors.New("dead")
			}
			j.run(t, func(m *mortal) {
				if m.Rank() == victim {
					dying = m
				}
				began := time.Now()
				err := m.AllReduceAsync(m.ctx, full(m.rank, 10, float32(1)), colligo.Sum).Synchronize(context.Background())
				if m.Rank() == victim {
					return
				}
				require.ErrorIs(m.t, err, colligo.ErrPeerLost)
				require.ErrorContains(m.t, err, fmt.Sprint("rank ", victim))
				require.Less(m.t, time.Since(began), 20*time.Second)
			})
		})
	}
}
