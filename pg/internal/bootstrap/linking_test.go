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
	require.Equal(t, own, all[1].FirstCause(t.Context(), own, nil))
	require.Equal(t, gone, all[1].FirstCause(t.Context(), gone, nil), "nobody knows more")
	broken := errors.New("known here")
	require.Equal(t, broken, all[1].FirstCause(t.Context(), gone, func() error { return broken }))
	all[2].GiveUp(gone, whole)
	require.ErrorIs(t, all[1].FirstCause(t.Context(), gone, nil), colligo.ErrPeerLost, "as for a rank that has met the loss itself")
	time.AfterFunc(time.Second, func() { all[3].GiveUp(errors.New("no memory"), whole) })
	require.ErrorContains(t, all[1].FirstCause(t.Context(), gone, nil), "has given up: no memory")
	told := fmt.Errorf("rank 0 reported: rank 3: %w", colligo.ErrPeerLost)
	require.ErrorContains(t, all[1].FirstCause(t.Context(), told, nil), "has given up: no memory")
}

// TestFirstCauseInTime does not wait for the first cause beyond the limit, but for a part of Grace.
func TestFirstCauseInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := formations(t, store.NewHash(), 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.Sleep(time.Minute)
		began, gone := time.Now(), fmt.Errorf("rank 0: %w", transport.ErrLost)
		require.Equal(t, gone, all[1].FirstCause(ctx, gone, nil))
		require.LessOrEqual(t, time.Since(began), Grace/2)
	})
}

// TestNoSecondChance has rank 0 give up. If it serves the store it has no second chance, for its next attempt serves another one.
func TestNoSecondChance(t *testing.T) {
	for _, serves := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			all, jobs := formations(t, store.NewHash(), 2)
			for r, f := range all {
				jobs[r].served = serves
				require.NoError(t, f.register(t.Context(), f.info()))
			}
			waits, stop := all[1].Linking(t.Context(), nil)
			defer stop()
			all[0].GiveUp(errors.New("no memory"), whole)
			began := time.Now()
			_, err := all[1].Rendezvous().Get(waits, "tcp/0")
			require.ErrorContains(t, err, "has given up: no memory")
			require.Equal(t, serves, time.Since(began) <= lastLook, "%v", time.Since(began))
		})
	}
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
