package storetest

import (
	"fmt"

	"github.com/stretchr/testify/require"
)

func testConcurrent(s suite) {
	const callers, rounds = 8, 20
	var done []<-chan error
	for g := range callers {
		done = append(done, async(func() error {
			for i := range rounds {
				key := fmt.Sprintf("%d/%d", g, i)
				if err := s.Set(s.ctx, key, []byte(key)); err != nil {
					return err
				}
				if v, err := s.Get(s.ctx, key); err != nil || string(v) != key {
					return fmt.Errorf("get %q: %q, %w", key, v, err)
				}
				if _, err := s.Add(s.ctx, "sum", 1); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, d := range done {
		require.NoError(s.t, s.returns(d))
	}
	s.get("sum", fmt.Sprint(callers*rounds))
}

// testBarrier runs the store-based barrier: count, and wait for the key that the last one sets.
func testBarrier(s suite) {
	const size = 6
	for round := range 3 {
		count, last := fmt.Sprint("count", round), fmt.Sprint("last", round)
		var done []<-chan error
		for range size {
			done = append(done, async(func() error {
				n, err := s.Add(s.ctx, count, 1)
				if err != nil {
					return err
				}
				if n == size {
					return s.Set(s.ctx, last, []byte("1"))
				}
				return s.Wait(s.ctx, last)
			}))
		}
		for _, d := range done {
			require.NoError(s.t, s.returns(d))
		}
	}
}

func testManyWaiters(s suite) {
	var done []<-chan error
	for i := range 20 {
		done = append(done, async(func() error { return s.Wait(s.ctx, "go", fmt.Sprint("own", i)) }))
	}
	s.set("go", "")
	for i := range done {
		s.set(fmt.Sprint("own", i), "")
	}
	for _, d := range done {
		require.NoError(s.t, s.returns(d))
	}
}
