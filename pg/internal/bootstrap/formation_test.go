package bootstrap

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
)

// given is a medium that is never opened.
func given(context.Context, *transport.Config) (transport.Mesh, error) { return nil, nil }

// formations are those of all ranks of the default group "0", in a store that outlives the job.
func formations(t *testing.T, s store.Store, size int) ([]*Formation, []*Job) {
	t.Helper()
	all, jobs := make([]*Formation, size), make([]*Job, size)
	for r := range all {
		j, id, err := Meet(t.Context(), &Options{Store: s, Rank: r, Size: size, StoreTimeout: time.Minute}, vars{}.lookup)
		require.NoError(t, err)
		m := Member{Name: "0", Rank: id.Rank, Ranks: make([]int, size), Default: true}
		for i := range m.Ranks {
			m.Ranks[i] = i
		}
		j.Join()
		f := NewFormation(j, m, Wants{Open: given}, slog.New(slog.DiscardHandler))
		all[r], jobs[r] = &f, j
	}
	return all, jobs
}

// each calls f for all ranks at once.
func each(size int, f func(r int) error) []error {
	errs := make([]error, size)
	var all sync.WaitGroup
	for r := range size {
		all.Go(func() { errs[r] = f(r) })
	}
	all.Wait()
	return errs
}

// TestAgree gives all ranks one secret, and leaves nothing in the store when all have departed, one of them by dying.
func TestAgree(t *testing.T) { synctest.Test(t, agree) }

func agree(t *testing.T) {
	const size = 5
	s := store.NewHash()
	all, jobs := formations(t, s, size)
	secrets := make([][]byte, size)
	for _, err := range each(size, func(r int) (err error) {
		_, secrets[r], err = all[r].Agree(t.Context())
		return err
	}) {
		require.NoError(t, err)
	}
	for r, f := range all {
		require.Len(t, secrets[r], 32)
		require.Equal(t, secrets[0], secrets[r])
		f.Formed()
	}
	n, err := s.NumKeys(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, size, n, "the default group's keys stay while it is open")
	const dead = 0
	for r := range size {
		if r != dead {
			all[r].Departed.Add(dead, transport.ErrLost)
			all[r].Depart(nil, "sim")
			require.NoError(t, jobs[r].Leave())
		}
	}
	n, err = s.NumKeys(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}

// slowStore is a store that removes nothing while it is slow.
type slowStore struct {
	store.Store
	slow bool
}

func (s *slowStore) Delete(ctx context.Context, key string) (bool, error) {
	if s.slow {
		<-ctx.Done()
		return false, ctx.Err()
	}
	return s.Store.Delete(ctx, key)
}

// TestSlowStore has the store be too slow to remove keys when a group has formed. They are removed when the group is left.
func TestSlowStore(t *testing.T) { synctest.Test(t, slowToRemove) }

func slowToRemove(t *testing.T) {
	for _, lasting := range []bool{true, false} {
		s := &slowStore{Store: store.NewHash(), slow: true}
		all, jobs := formations(t, s, 2)
		for r, f := range all {
			f.Default, jobs[r].lasting = false, lasting
			require.NoError(t, f.register(t.Context(), f.info()))
			require.NoError(t, f.Rendezvous().Set(t.Context(), "tcp/"+string(rune('0'+r)), nil))
			f.Formed()
		}
		n, err := s.NumKeys(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 4, n)
		s.slow = false
		for _, f := range all {
			f.Depart(nil, "tcp")
		}
		n, err = s.NumKeys(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
	}
}

func whole(text string) string { return text }

// TestGiveUp tells the others why a rank has left, and lets its next attempt register.
func TestGiveUp(t *testing.T) { synctest.Test(t, giveUp) }

func giveUp(t *testing.T) {
	s := store.NewHash()
	all, _ := formations(t, s, 2)
	mine := all[1].info()
	require.NoError(t, all[1].register(t.Context(), mine))
	all[1].GiveUp(errors.New("no memory"), whole)
	_, _, err := all[0].Agree(t.Context())
	require.ErrorContains(t, err, "rank 1 (process ")
	require.ErrorContains(t, err, ") has given up: no memory")
	all[0].GiveUp(errors.New("so"), whole)
	again, _ := formations(t, s, 2)
	for _, err := range each(2, func(r int) error {
		_, _, err := again[r].Agree(t.Context())
		return err
	}) {
		require.NoError(t, err)
	}
	time.Sleep(time.Second) // a process is known by when it began
	_, _, err = all[1].Agree(t.Context())
	require.ErrorContains(t, err, "rank 1 of group 0 is taken by process ")
}

// TestMissing names the ranks that have not come.
func TestMissing(t *testing.T) { synctest.Test(t, missing) }

func missing(t *testing.T) {
	all, _ := formations(t, store.NewHash(), 4)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, err := all[2].Agree(ctx)
	require.ErrorContains(t, err, "ranks 0-1, 3 have not come to group 0: ")
	require.ErrorIs(t, err, colligo.ErrTimeout)
}

// TestMissingUnknown has a store that does not say in time which ranks have not come. It is a timeout all the same.
func TestMissingUnknown(t *testing.T) { synctest.Test(t, missingUnknown) }

func missingUnknown(t *testing.T) {
	all, _ := formations(t, &silentStore{Store: store.NewHash()}, 4)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, _, err := all[2].Agree(ctx)
	require.ErrorContains(t, err, "group 0 had not formed when the time was up: the store does not answer: ")
	require.ErrorIs(t, err, colligo.ErrTimeout)
	require.LessOrEqual(t, time.Since(began), 20*time.Millisecond+Grace/4)
}

// TestMissingAskedBefore has a store that answers until shortly before the time is up. A rank names the missing ones nevertheless.
func TestMissingAskedBefore(t *testing.T) { synctest.Test(t, missingAskedBefore) }

func missingAskedBefore(t *testing.T) {
	const limit = 3 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	all, _ := formations(t, &silentStore{Store: store.NewHash(), from: time.Now().Add(limit - lookAhead/2)}, 4)
	_, _, err := all[2].Agree(ctx)
	require.ErrorContains(t, err, "ranks 0-1, 3 have not come to group 0 (asked 1.25s before): the store does not answer: ")
}

// TestMissingLate has a rank be held up until long after its time was up. It asks which ranks are missing, and names them.
func TestMissingLate(t *testing.T) { synctest.Test(t, missingLate) }

func missingLate(t *testing.T) {
	all, _ := formations(t, store.NewHash(), 4)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	time.Sleep(time.Minute)
	require.ErrorContains(t, all[2].missing(ctx, ctx.Err()), "ranks 0-3 have not come to group 0: ")
}

// TestMeetSilent has a group shrink whose store does not answer. Shrink ends half of Grace after its limit, and names the rank that serves
// the store.
func TestMeetSilent(t *testing.T) { synctest.Test(t, meetSilent) }

func meetSilent(t *testing.T) {
	all, jobs := formations(t, &silentStore{Store: store.NewHash()}, 4)
	jobs[2].served = true
	began := time.Now()
	_, err := all[2].NextEpoch().Meet(t.Context(), AllRanks(4), 20*time.Millisecond)
	require.EqualError(t, err, "rank 0 of the default group, which serves the store, does not answer: context deadline exceeded")
	require.ErrorIs(t, err, colligo.ErrTimeout)
	require.Equal(t, 20*time.Millisecond+Grace/2, time.Since(began))
}

// TestRegisterSilent has the store stop answering when a rank has reached it but not registered yet. The rank names the one that serves it.
func TestRegisterSilent(t *testing.T) { synctest.Test(t, registerSilent) }

func registerSilent(t *testing.T) {
	all, jobs := formations(t, &deafStore{store.NewHash()}, 4)
	jobs[2].served = true
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, err := all[2].Agree(ctx)
	require.EqualError(t, err,
		"registering in the store: rank 0 of the default group, which serves the store, does not answer: context deadline exceeded")
	require.ErrorIs(t, err, colligo.ErrTimeout)
}

// deafStore is a store that does not answer a compare and set.
type deafStore struct{ store.Store }

func (s *deafStore) CompareSet(ctx context.Context, key string, expected, desired []byte) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// silentStore is a store that does not say which keys it has, from some time on.
type silentStore struct {
	store.Store
	from time.Time
}

func (s *silentStore) Check(ctx context.Context, keys ...string) (bool, error) {
	if time.Now().Before(s.from) {
		return s.Store.Check(ctx, keys...)
	}
	<-ctx.Done()
	return false, ctx.Err()
}

// TestEpochs has ranks agree on who is left: rank 1 is excluded, rank 3 has died, rank 4 does not come in time.
func TestEpochs(t *testing.T) { synctest.Test(t, epochs) }

func epochs(t *testing.T) {
	const size = 5
	s := store.NewHash()
	all, jobs := formations(t, s, size)
	left := []int{0, 2}
	epochs, members := make([]*Epoch, len(left)), make([][]int, len(left))
	for i, r := range left {
		all[r].Departed.Add(3, transport.ErrLost)
		epochs[i] = all[r].NextEpoch()
	}
	expected, err := all[0].Remaining([]int{1})
	require.NoError(t, err)
	require.Equal(t, []int{0, 2, 3, 4}, expected)
	for _, err := range each(len(left), func(i int) (err error) {
		members[i], err = epochs[i].Meet(t.Context(), expected, 50*time.Millisecond)
		return err
	}) {
		require.NoError(t, err)
	}
	for i, e := range epochs {
		require.Equal(t, left, members[i])
		require.Equal(t, Member{Name: "0@1", Rank: i, Ranks: left, Root: "0", Epoch: 1}, e.Member(members[i]))
		rest, err := all[left[i]].Remaining(nil)
		require.NoError(t, err)
		require.Equal(t, left, rest)
		e.AbandonMembers()
	}
	late := all[4].NextEpoch()
	decided, err := late.Meet(t.Context(), []int{0, 1, 2, 3, 4}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, left, decided)
	late.Abandon()
	for _, j := range jobs {
		require.NoError(t, j.Leave())
	}
	n, err := s.NumKeys(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}

// TestGoOn has group "0@1" form for rank 0 alone, which loses all others. Rank 1 has gone on from "0" to the next try. Rank 2 has said
// so and then given up, rank 3 has closed the group, and rank 4 has died.
func TestGoOn(t *testing.T) {
	for _, lost := range []error{transport.ErrGoodbye, transport.ErrLost} {
		synctest.Test(t, func(t *testing.T) { goOn(t, lost) })
	}
}

func goOn(t *testing.T, lost error) {
	ranks := []int{0, 1, 2, 3, 4}
	all, _ := formations(t, store.NewHash(), len(ranks))
	tries := make([]*Epoch, len(ranks))
	for r := range ranks {
		tries[r] = all[r].NextEpoch()
	}
	tries[1].GoOn()
	tries[2].GoOn()
	tries[2].Out()
	m := tries[0].Member(ranks)
	formed := NewFormation(all[0].job, m, Wants{Open: given}, slog.New(slog.DiscardHandler))
	formed.Departed.Add(1, lost)
	formed.Departed.Add(2, lost)
	formed.Departed.Add(3, transport.ErrGoodbye)
	formed.Departed.Add(4, transport.ErrLost)
	all[1].Departed.Add(0, transport.ErrGoodbye)
	for _, r := range ranks[2:] {
		all[1].Departed.Add(r, transport.ErrLost)
	}
	members := make([][]int, 2)
	for _, err := range each(2, func(r int) (err error) {
		old := []*Formation{&formed, all[1]}[r]
		time.Sleep(time.Duration(r) * time.Second)
		e := old.NextEpoch()
		require.Equal(t, "0@2", e.Name)
		members[r], err = e.Meet(t.Context(), ranks, time.Minute)
		return err
	}) {
		require.NoError(t, err)
	}
	require.Equal(t, [][]int{{0, 1}, {0, 1}}, members)
}
