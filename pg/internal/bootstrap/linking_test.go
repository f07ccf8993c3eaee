package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
)

// TestLinking ends what a rank waits for when another has given up, and not after its links are open.
func TestLinking(t *testing.T) { synctest.Test(t, linking) }

func linking(t *testing.T) {
	all, _ := formations(t, store.NewHash(), 3)
	for _, f := range all {
		require.NoError(t, f.register(t.Context(), f.info()))
	}
	waits, stop := all[0].Linking(t.Context(), nil)
	open, linked := all[1].Linking(t.Context(), nil)
	linked()
	began := time.Now()
	all[2].GiveUp(fmt.Errorf("too late: %w", colligo.ErrTimeout), whole)
	_, err := all[0].Rendezvous().Get(waits, "tcp/1")
	var left *GaveUp
	require.ErrorAs(t, err, &left)
	require.Equal(t, 2, left.Rank)
	require.ErrorIs(t, err, colligo.ErrTimeout)
	require.Equal(t, err, context.Cause(waits), "also where nobody waits for the store")
	require.Less(t, time.Since(began), 3*time.Second)
	require.Equal(t, context.Canceled, context.Cause(open))
	stop()
}

// TestFirstCause prefers the reason of a rank that did not leave because of another.
func TestFirstCause(t *testing.T) { synctest.Test(t, firstCause) }

func firstCause(t *testing.T) {
	all, _ := formations(t, store.NewHash(), 4)
	for _, f := range all {
		require.NoError(t, f.register(t.Context(), f.info()))
	}
	gone := fmt.Errorf("rank 3: %w", transport.ErrLost)
	own := errors.New("of its own")
	require.Equal(t, own, all[1].FirstCause(own, nil))
	require.Equal(t, gone, all[1].FirstCause(gone, nil), "nobody knows more")
	broken := errors.New("known here")
	require.Equal(t, broken, all[1].FirstCause(gone, func() error { return broken }))
	all[2].GiveUp(gone, whole)
	time.AfterFunc(time.Second, func() { all[3].GiveUp(errors.New("no memory"), whole) })
	require.ErrorContains(t, all[1].FirstCause(gone, nil), "has given up: no memory")
	told := fmt.Errorf("rank 0 reported: rank 3: %w", colligo.ErrPeerLost)
	require.ErrorContains(t, all[1].FirstCause(told, nil), "has given up: no memory")
}

// TestDoubt counts a rank as come whose process was thought dead, while its presence counts up, and else as dead.
func TestDoubt(t *testing.T) { synctest.Test(t, doubting) }

func doubting(t *testing.T) {
	for _, lives := range []bool{true, false} {
		all, _ := formations(t, store.NewHash(), 3)
		for r, f := range all {
			for i := range f.Ranks {
				f.Ranks[i] = i
			}
			if r == 0 {
				f.Departed.Add(2, transport.ErrLost)
			}
		}
		members := make([][]int, 2)
		if lives {
			go func() { _, _ = all[2].NextEpoch().Meet(t.Context(), []int{0, 1, 2}, time.Minute) }()
		} else {
			require.NoError(t, all[2].NextEpoch().store.Set(t.Context(), hereKey(2), []byte("0")))
			all[1].Departed.Add(2, transport.ErrLost)
		}
		time.Sleep(time.Second)
		for _, err := range each(2, func(r int) (err error) {
			members[r], err = all[r].NextEpoch().Meet(t.Context(), []int{0, 1, 2}, time.Minute)
			return err
		}) {
			require.NoError(t, err)
		}
		want := []int{0, 1}
		if lives {
			want = append(want, 2)
		}
		require.Equal(t, [][]int{want, want}, members)
		synctest.Wait()
	}
}
