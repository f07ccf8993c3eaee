package storetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
)

func (s suite) push(key, val string) { require.NoError(s.t, s.QueuePush(s.ctx, key, []byte(val))) }

func (s suite) queueLen(key string, want int) {
	s.t.Helper()
	n, err := s.QueueLen(s.ctx, key)
	require.NoError(s.t, err)
	require.EqualValues(s.t, want, n)
}

func testQueueOrder(s suite) {
	if !s.queues() {
		return
	}
	_, err := s.QueuePop(s.ctx, "q", false)
	require.ErrorIs(s.t, err, store.ErrQueueEmpty)
	require.ErrorContains(s.t, err, "queue is empty")
	for _, v := range []string{"a", "", "c"} {
		s.push("q", v)
	}
	s.queueLen("q", 3)
	for i, want := range []string{"a", "", "c"} {
		v, err := s.QueuePop(s.ctx, "q", i%2 == 0)
		require.NoError(s.t, err)
		require.Equal(s.t, want, string(v))
	}
	s.queueLen("q", 0)
	_, err = s.QueuePop(s.ctx, "q", false)
	require.ErrorIs(s.t, err, store.ErrQueueEmpty)
}

func testQueueBlocks(s suite) {
	if !s.queues() {
		return
	}
	var got []byte
	done := async(func() (err error) { got, err = s.QueuePop(s.ctx, "q", true); return err })
	s.pending(done)
	s.push("q", "v")
	require.NoError(s.t, s.returns(done))
	require.Equal(s.t, "v", string(got))
}

// testQueueApart: Wait and Check see a queue; counting, listing and deleting do not.
func testQueueApart(s suite) {
	if !s.queues() {
		return
	}
	s.push("q", "v")
	s.check(true, "q")
	require.NoError(s.t, s.Wait(s.ctx, "q"))
	keys, err := s.ListKeys(s.ctx)
	require.NoError(s.t, err)
	require.Empty(s.t, keys)
	there, err := s.Delete(s.ctx, "q")
	require.NoError(s.t, err)
	require.False(s.t, there)
	s.queueLen("q", 1)
}

// testQueueHandsOn: a call that gives up must not keep a value from a call that waits behind it.
func testQueueHandsOn(s suite) {
	if !s.queues() {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	quitter := async(func() error { _, err := s.QueuePop(ctx, "q", true); return err })
	s.pending(quitter)
	taker := async(func() error { _, err := s.QueuePop(s.ctx, "q", true); return err })
	s.pending(taker)
	cancel()
	require.ErrorIs(s.t, s.returns(quitter), context.Canceled)
	s.push("q", "v")
	require.NoError(s.t, s.returns(taker))
}

func testQueueMany(s suite) {
	if !s.queues() {
		return
	}
	const takers, each = 5, 10
	var mu sync.Mutex
	seen := map[string]int{}
	var done []<-chan error
	for range takers {
		done = append(done, async(func() error {
			for range each {
				v, err := s.QueuePop(s.ctx, "q", true)
				if err != nil {
					return err
				}
				mu.Lock()
				seen[string(v)]++
				mu.Unlock()
			}
			return nil
		}))
	}
	for i := range takers * each {
		s.push("q", fmt.Sprint(i))
	}
	for _, d := range done {
		require.NoError(s.t, s.returns(d))
	}
	require.Len(s.t, seen, takers*each)
}
