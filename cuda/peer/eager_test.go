package peer

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
)

// TestMessages holds codes and labels against what they must tell.
func TestMessages(t *testing.T) {
	t.Parallel()
	seen := map[uint32]message{}
	for _, d := range colligo.DTypes() {
		for _, count := range []int{0, 1, 2, 1000, mostCount - 1, mostCount, 1 << 26, 1 << 40} {
			for _, tag := range []int{0, 1, 7, 1 << 20, mix, -1, math.MinInt32, math.MaxInt32} {
				m := message{d, count, tag}
				code := m.code()
				require.GreaterOrEqual(t, code, uint32(2))
				require.Less(t, code, uint32(mostCode))
				if other, ok := seen[code]; ok {
					require.Fail(t, "one code", "%v and %v", m, other)
				}
				seen[code] = m
				label := m.label(5000)
				require.Equal(t, uint32(5000%numbers+1), label>>countBits)
				if count < mostCount && tag >= 0 && tag <= mix {
					require.Equal(t, fmt.Sprintf("%d %v elements with tag %d", count, d, tag), sender(code, label))
				} else if count >= mostCount {
					require.Equal(t, fmt.Sprintf("4194303 or more %v elements", d), sender(code, label))
				}
			}
		}
	}
	require.Zero(t, message{}.label(0)>>countBits)
}

// TestNumbers finds the receive of a label, whatever the numbers that labels have room for.
func TestNumbers(t *testing.T) {
	t.Parallel()
	var m eagerPair
	for n := 1; n <= numbers+40; n++ {
		m.expect(message{colligo.Float32, n, 0})
		for back := 0; back < remembered; back += 15 {
			if back < n {
				require.Equal(t, n-back, m.of(message{}.label(n-back)).count)
			}
		}
		require.Nil(t, m.of(message{}.label(n+1)), "the receive of message %d is not there yet", n+1)
		require.Nil(t, m.of(message{}.label(n+2)))
		m.settled[streamorder.Receives] = n - 1
		if n > 1 {
			require.Nil(t, m.of(message{}.label(n-1)), "message %d is done", n-1)
		}
		m.settled[streamorder.Receives] = 0
	}
	m.captured = true
	require.Nil(t, m.of(message{}.label(m.received)))
}

// otherMessage is a message of rank 0, and the receive of rank 1 that does not fit.
type otherMessage struct {
	name                      string
	sent, received, tag, with int
	dtype                     colligo.DType
	text                      string
}

func otherMessages() []otherMessage {
	return []otherMessage{
		{"tag", 100, 100, 7, 5, colligo.Float32, "rank 0 sends 100 float32 elements with tag 7, this rank receives 100 float32 elements with tag 5"},
		{"length", 100, 200_000, 7, 7, colligo.Float32, "rank 0 sends 100 float32 elements with tag 7, this rank receives 200000 float32 elements with tag 7"},
		{"nothing", 0, 10, 7, 7, colligo.Float32, "rank 0 sends 0 float32 elements with tag 7, this rank receives 10 float32 elements with tag 7"},
		{"type", 10, 10, 7, 7, colligo.Int32, "rank 0 sends 10 int32 elements with tag 7, this rank receives 10 float32 elements with tag 7"},
	}
}

// TestOtherMessage sends what is not received: the error names both sides, and comes soon.
func TestOtherMessage(t *testing.T) {
	t.Parallel()
	for _, c := range otherMessages() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onRanks(t, abortable(t, 2).Driver(), 2, 2, simHalf, Options{Memory: 12 << 20}, func(r *rank) error { return r.otherMessage(c) })
		})
	}
}

func (r *rank) otherMessage(c otherMessage) error {
	if err := r.eager(1000); err != nil {
		return err
	}
	if r.g.Rank() == 0 {
		x := r.tensor(0, c.dtype, 0, c.sent)
		return first(r.put(x, make([]byte, x.Size())),
			func() error { return r.g.Send(r.ctx, x, 1, c.tag) },
			func() error { return r.failed(c.text) })
	}
	x := r.tensor(0, colligo.Float32, 0, c.received)
	if err := r.put(x, make([]byte, x.Size())); err != nil {
		return err
	}
	err := r.g.RecvAsync(r.ctx, x, 0, c.with).Synchronize(r.ctx)
	if !errors.Is(err, colligo.ErrMismatch) {
		return errors.Join(errors.New("no mismatch"), err)
	}
	return r.failed(c.text)
}

// TestEagerLeavesNothingOut leaves out each wait of short messages, of which rank 0 sends rank 1 many. It expects the
// simulator to find each missing.
func TestEagerLeavesNothingOut(t *testing.T) {
	t.Parallel()
	missesEach(t, Options{Memory: rendezvousMemory, Timeout: 5 * time.Second}, func(r *rank, random *rand.Rand) error {
		x := r.tensor(0, colligo.Float32, 0, 5000)
		if err := first(r.put(x, make([]byte, x.Size())), func() error { return r.g.Broadcast(r.ctx, x, 0) }); err != nil {
			return err
		}
		for range 10 {
			n := 1 + random.IntN(5000)
			var err error
			switch r.g.Rank() {
			case 0:
				err = r.g.Send(r.ctx, x.Slice(0, n), 1, 0)
			case 1:
				err = r.g.Recv(r.ctx, x.Slice(0, n), 0, 0)
			}
			if err != nil {
				return err
			}
		}
		return r.synchronize()
	}, map[string]model.Wait{"nothing": 0, "slot": model.WaitForSlot, "mail": model.WaitForMessage})
}

// TestAnyPeer receives from whoever sends, which devices cannot; the group goes on.
func TestAnyPeer(t *testing.T) {
	t.Parallel()
	onSim(t, 2, small(LL), func(r *rank) error {
		_, err := r.g.RecvAny(r.ctx, r.tensor(0, colligo.Float32, 0, 4), 0)
		if err == nil {
			return errors.New("a receive from any rank went through")
		}
		return first(contains(err, "give the source"), func() error { return r.eager(10) })
	})
}
