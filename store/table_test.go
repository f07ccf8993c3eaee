package store_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
)

// watcher is the dumb twin of a watch: the set of keys still to come.
type watcher struct {
	missing map[string]bool
	fired   bool
}

// TestTableAgainstSets runs random writes past random watches, and compares each watch with a set of missing keys.
func TestTableAgainstSets(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	keys := []string{"a", "b", "c", "d", "e", "f"}
	for range 300 {
		table := store.NewTable()
		present := map[string]bool{}
		var twins []*watcher
		for range 40 {
			k := keys[rnd.IntN(len(keys))]
			switch rnd.IntN(4) {
			case 0:
				twins = append(twins, watchSome(t, table, present, keys, rnd))
			case 1:
				require.Equal(t, present[k], table.Delete(k))
				delete(present, k)
			default:
				table.Set(k, nil)
				present[k] = true
				for _, w := range twins {
					delete(w.missing, k)
				}
			}
			for _, w := range twins {
				require.Equal(t, len(w.missing) == 0, w.fired)
			}
		}
	}
}

func watchSome(t *testing.T, table *store.Table, present map[string]bool, keys []string, rnd *rand.Rand) *watcher {
	twin := &watcher{missing: map[string]bool{}}
	var want []string
	for range 1 + rnd.IntN(4) {
		k := keys[rnd.IntN(len(keys))]
		want = append(want, k)
		if !present[k] {
			twin.missing[k] = true
		}
	}
	require.Equal(t, len(twin.missing) == 0, table.Check(want))
	w := table.Watch(want, func() { twin.fired = true })
	require.Equal(t, len(twin.missing) == 0, w == nil)
	if w == nil {
		twin.fired = true
	} else if rnd.IntN(3) == 0 {
		w.Cancel()
		return &watcher{missing: map[string]bool{"cancelled": true}}
	}
	return twin
}

// TestWatchQueue: a pushed value wakes one watcher, in order, and one that does not take it passes the notice on.
func TestWatchQueue(t *testing.T) {
	table := store.NewTable()
	var fired []int
	var watches []*store.Watch
	for i := range 4 {
		watches = append(watches, table.Watch([]string{"q"}, func() { fired = append(fired, i) }))
	}
	table.Push("q", []byte("v"))
	require.Equal(t, []int{0}, fired)
	watches[0].Cancel()
	require.Equal(t, []int{0, 1}, fired, "the value is still there")
	watches[2].Cancel()
	watches[1].Claim()
	require.Equal(t, []int{0, 1}, fired)
	val, n := table.Pop("q")
	require.Equal(t, "v", string(val))
	require.Equal(t, 1, n)
	watches[1].Cancel()
	require.Equal(t, []int{0, 1}, fired, "a second end does nothing")
	require.Equal(t, 1, table.Watches())
	table.Set("q", nil)
	require.Equal(t, []int{0, 1, 3}, fired)
	require.Zero(t, table.Watches())
}

func TestArrive(t *testing.T) {
	table := store.NewTable()
	passed := 0
	for i := range 5 {
		w, err := table.Arrive("b", 5, func() { passed++ })
		require.NoError(t, err)
		require.Equal(t, i == 4, w == nil)
		table.Set("other", nil)
		require.Nil(t, table.Watch([]string{"b"}, func() {}), "the counter is a key like any other")
	}
	require.Equal(t, 4, passed)
	table.Set("text", []byte("x"))
	_, err := table.Arrive("text", 1, func() {})
	require.Error(t, err)
}

// TestAppendKeepsReaders: what was read before stays, though the value grows in place.
func TestAppendKeepsReaders(t *testing.T) {
	table := store.NewTable()
	var read [][]byte
	for i := range 100 {
		table.Append("k", []byte{byte(i)})
		v, _ := table.Get("k")
		read = append(read, v)
	}
	for i, v := range read {
		require.Len(t, v, i+1)
		require.True(t, slices.IsSorted(v))
	}
}

func TestNextCount(t *testing.T) {
	for _, c := range []struct {
		cur   string
		delta int64
		want  int64
		bad   string
	}{
		{"7", 1, 8, ""}, {"-7", 0, -7, ""}, {"", 1, 0, "not a number"}, {"1 ", 1, 0, "not a number"},
		{fmt.Sprint(math.MaxInt64), 1, 0, "exceeds int64"}, {fmt.Sprint(math.MinInt64), -1, 0, "exceeds int64"},
		{"1", math.MinInt64, math.MinInt64 + 1, ""}, {"-1", math.MinInt64, 0, "exceeds int64"},
	} {
		got, err := store.NextCount([]byte(c.cur), true, c.delta)
		if c.bad != "" {
			require.ErrorContains(t, err, c.bad, "%+v", c)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%+v", c)
	}
	got, err := store.NextCount(nil, false, -3)
	require.NoError(t, err)
	require.EqualValues(t, -3, got)
}

// TestPrefixKeys spells out where nested views put their keys, as the default group of a PyTorch job does.
func TestPrefixKeys(t *testing.T) {
	h := store.NewHash()
	pg := store.NewPrefix("default_pg", h)
	group := store.NewPrefix("cuda/", store.NewPrefix("0/", pg))
	require.NoError(t, group.Set(t.Context(), "0", []byte("id")))
	require.NoError(t, h.Set(t.Context(), "elsewhere", nil))
	keys, err := h.ListKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"default_pg/0//cuda//0", "elsewhere"}, keys)
	keys, err = pg.ListKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"0//cuda//0"}, keys)
	n, err := group.NumKeys(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, n, "the whole store's")
	require.Same(t, h, store.Innermost(group))
	group.SetTimeout(time.Minute)
	require.Equal(t, time.Minute, h.Timeout())
}

func TestTimeoutError(t *testing.T) {
	err := &store.TimeoutError{After: 300 * time.Millisecond, Keys: []string{"/nope"}}
	require.EqualError(t, err, "wait timeout after 300ms, keys: /nope")
	require.ErrorIs(t, err, store.ErrTimeout)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, err.Timeout())
	err.Keys = []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	require.EqualError(t, err, "wait timeout after 300ms, keys: a, b, c, d, e, f, g, h and 2 more")
	require.EqualError(t, &store.TimeoutError{After: time.Second}, "wait timeout after 1000ms")
}
