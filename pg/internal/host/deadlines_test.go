package host

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
)

// TestDuePairs lets receives come, end and expire in random order, and holds each look against one at all of them.
func TestDuePairs(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			b := New(Config{Size: 2})
			for range 300 {
				switch random.IntN(3) {
				case 0:
					b.messages = append(b.messages, receiveFor(t, random))
				case 1:
					if n := len(b.messages); n > 0 {
						i := random.IntN(n)
						b.messages = append(b.messages[:i], b.messages[i+1:]...)
					}
				default:
					time.Sleep(time.Duration(random.IntN(3)) * time.Second)
				}
				due := b.dueMessages()
				var first *Message
				for _, m := range b.messages {
					if first == nil || m.Deadline().Before(first.Deadline()) {
						first = m
					}
				}
				if first != nil {
					require.False(t, due.IsZero() || due.After(first.Deadline()), "seed %d: asleep beyond a deadline", seed)
				}
				late, cause := b.expiredMessage(time.Now())
				require.NoError(t, cause)
				require.Equal(t, first != nil && !time.Now().Before(first.Deadline()), late != nil, "seed %d", seed)
				if late != nil { // the group would fail; here all who are late go
					b.messages = nil
				}
			}
		})
	}
}

// receiveFor makes a pending receive with the group's limit or a context's.
func receiveFor(t *testing.T, random *rand.Rand) *Message {
	o := &op.Op{Coll: plan.Recv, Limit: time.Duration(1+random.IntN(20)) * time.Second}
	if random.IntN(2) == 0 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+random.IntN(20))*time.Second)
		t.Cleanup(cancel)
		o.Ctx = ctx
	}
	return &Message{Op: o}
}

// BenchmarkPendingDeadlines measures what deadlines cost an idle poll while receives are pending.
func BenchmarkPendingDeadlines(tb *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		tb.Run(fmt.Sprintf("pending=%d", n), func(tb *testing.B) {
			b := New(Config{Size: 1})
			for range n {
				b.messages = append(b.messages, &Message{Op: &op.Op{Coll: plan.Recv, Limit: time.Hour}})
			}
			for tb.Loop() {
				b.nearest()
				b.expired()
			}
		})
	}
}
