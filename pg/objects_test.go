package pg_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/pg/pickle"
)

var codecs = []pg.Codec{pg.JSON, pg.Gob, pg.Pickle}

// object is a rank's: its length differs from that of every other rank.
func object(rank int) map[string][]string {
	words := []string{"", "é", strings.Repeat("x", 1000*rank)}
	return map[string][]string{fmt.Sprint("rank ", rank): words[:1+rank%3], "all": {"a", "b"}}
}

func objectsOf(n int) []map[string][]string {
	all := make([]map[string][]string, n)
	for r := range all {
		all[r] = object(r)
	}
	return all
}

// TestObjects moves objects in every way with every codec.
func TestObjects(t *testing.T) {
	for _, transport := range []string{"sim", "shm"} {
		for _, size := range []int{1, 2, 4, 5} {
			for _, c := range codecs {
				t.Run(fmt.Sprintf("transport=%s/size=%d/codec=%s", transport, size, c.Name()), func(t *testing.T) {
					needs(t, transport)
					pgtest.RunWith(t, size, pgtest.Options{Transport: transport}, func(t *testing.T, g *pg.Group) {
						for root := range size {
							moveObjects(t, g, c, root)
						}
					})
				})
			}
		}
	}
}

func moveObjects(t *testing.T, g *pg.Group, c pg.Codec, root int) {
	ctx, me, size := t.Context(), g.Rank(), g.Size()
	got, err := pg.AllGatherObject(ctx, g, c, object(me))
	require.NoError(t, err)
	require.Equal(t, objectsOf(size), got)

	got, err = pg.GatherObject(ctx, g, c, object(me), root)
	require.NoError(t, err)
	if me == root {
		require.Equal(t, objectsOf(size), got)
	} else {
		require.Nil(t, got)
	}

	list := []map[string][]string{object(me), object(me + 1), object(me + 2)}
	require.NoError(t, pg.BroadcastObjectList(ctx, g, c, list, root))
	require.Equal(t, []map[string][]string{object(root), object(root + 1), object(root + 2)}, list)

	list = nil
	if me == root {
		list = objectsOf(size)
	}
	one, err := pg.ScatterObjectList(ctx, g, c, list, root)
	require.NoError(t, err)
	require.Equal(t, object(me), one)

	if size == 1 {
		return
	}
	list = make([]map[string][]string, 2)
	if me == root {
		for r := range size - 1 {
			source, err := pg.RecvObjectList(ctx, g, c, list, colligo.NoRank, 5)
			require.NoError(t, err, "message %d", r)
			require.Equal(t, []map[string][]string{object(source), object(source + 1)}, list)
		}
		for r := range size {
			if r != root {
				require.NoError(t, pg.SendObjectList(ctx, g, c, list, r, 6))
			}
		}
		return
	}
	require.NoError(t, pg.SendObjectList(ctx, g, c, []map[string][]string{object(me), object(me + 1)}, root, 5))
	source, err := pg.RecvObjectList(ctx, g, c, list, root, 6)
	require.NoError(t, err)
	require.Equal(t, root, source)
	require.NotNil(t, list[0])
}

// TestObjectsOfSubgroup counts roots in the subgroup.
func TestObjectsOfSubgroup(t *testing.T) {
	pgtest.Run(t, 4, func(t *testing.T, g *pg.Group) {
		low, err := g.NewGroup(t.Context(), []int{0, 1})
		require.NoError(t, err)
		high, err := g.NewGroup(t.Context(), []int{2, 3})
		require.NoError(t, err)
		sub := low
		if g.Rank() > 1 {
			sub, low = high, high
		}
		moveObjects(t, sub, pg.JSON, 1)
		_, err = pg.AllGatherObject(t.Context(), map[bool]*pg.Group{true: high, false: low}[g.Rank() < 2], pg.JSON, 1)
		if g.Rank() < 2 {
			require.ErrorIs(t, err, pg.ErrNotMember)
		}
		require.NoError(t, sub.Close())
	})
}

// bad cannot be encoded by any codec.
type bad struct{ F func() }

// TestObjectNotEncoded has one rank fail to encode. Every rank that takes part hears of it, none waits, and the group goes on.
func TestObjectNotEncoded(t *testing.T) {
	for _, c := range codecs {
		pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
			ctx, start := t.Context(), time.Now()
			var v any = g.Rank()
			if g.Rank() == 1 {
				v = bad{func() {}}
			}
			says := func(err error, own string) {
				t.Helper()
				if g.Rank() == 1 {
					require.ErrorContains(t, err, own)
				} else {
					require.ErrorContains(t, err, "rank 1 could not encode an object")
				}
			}
			as := " as " + c.Name() + ": "
			_, err := pg.AllGatherObject(ctx, g, c, v)
			says(err, "pg: all_gather_object: object 0"+as)
			_, err = pg.GatherObject(ctx, g, c, v, 2)
			says(err, "pg: gather_object: object 0"+as)
			list := []any{1, v, 3}
			says(pg.BroadcastObjectList(ctx, g, c, list, 1), "pg: broadcast_object_list: object 1"+as)
			require.Equal(t, 1, list[0], "left as it was")
			if g.Rank() != 1 {
				list = nil
			}
			_, err = pg.ScatterObjectList(ctx, g, c, list, 1)
			says(err, "pg: scatter_object_list: object 1"+as)
			switch g.Rank() {
			case 0:
				_, err = pg.RecvObjectList(ctx, g, c, make([]any, 3), 1, 0)
				says(err, "")
			case 1:
				says(pg.SendObjectList(ctx, g, c, list, 0, 0), "pg: send_object_list: object 1"+as)
			}
			require.NoError(t, g.Barrier(ctx))
			require.Less(t, time.Since(start), time.Minute)
		})
	}
}

// TestObjectTooLarge holds objects against the limit before they are sent.
func TestObjectTooLarge(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.MaxObject = 3000 }}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		fits, large := strings.Repeat("x", 900), strings.Repeat("x", 1000)
		_, err := pg.AllGatherObject(t.Context(), g, pg.JSON, fits)
		require.NoError(t, err)
		_, err = pg.AllGatherObject(t.Context(), g, pg.JSON, large)
		require.ErrorContains(t, err, "MaxObject is 2.9 KiB")
		list := []string{large, large, fits}
		require.ErrorContains(t, pg.BroadcastObjectList(t.Context(), g, pg.JSON, append(list, fits), 0), map[bool]string{
			true: "MaxObject is", false: "rank 0 could not encode an object"}[g.Rank() == 0])
		require.NoError(t, pg.BroadcastObjectList(t.Context(), g, pg.JSON, list[:2], 0), "they do not travel padded")
	})
}

// TestObjectLimitsDiffer has a rank announce what another refuses: the group ends, for the ranks are no longer in step.
func TestObjectLimitsDiffer(t *testing.T) {
	for name, call := range map[string]func(t *testing.T, g *pg.Group) error{
		"all_gather": func(t *testing.T, g *pg.Group) error {
			_, err := pg.AllGatherObject(t.Context(), g, pg.JSON, strings.Repeat("x", 10_000))
			return err
		},
		"broadcast": func(t *testing.T, g *pg.Group) error {
			return pg.BroadcastObjectList(t.Context(), g, pg.JSON, []string{strings.Repeat("x", 10_000)}, 0)
		},
		"send": func(t *testing.T, g *pg.Group) error {
			if g.Rank() == 0 {
				return pg.SendObjectList(t.Context(), g, pg.JSON, []string{strings.Repeat("x", 10_000)}, 1, 0)
			}
			_, err := pg.RecvObjectList(t.Context(), g, pg.JSON, []string{""}, 0, 0)
			return err
		},
	} {
		t.Run("call="+name, func(t *testing.T) {
			var got errorsOf
			o := pgtest.Options{Config: func(rank int, c *pg.Config) {
				if rank == 1 {
					c.MaxObject = 1000
				}
			}}
			pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
				err := call(t, g)
				if err == nil {
					err = g.Barrier(t.Context())
				}
				got.add(g, err)
			})
			require.Error(t, got.byRank[0])
			require.ErrorContains(t, got.byRank[1], "MaxObject is 1000")
		})
	}
}

// TestHostileSizes plays a peer that announces sizes without sense: they are refused before memory is taken.
func TestHostileSizes(t *testing.T) {
	for _, n := range []int64{-2, math.MinInt64, math.MaxInt64, 1 << 40, pg.DefaultMaxObject/2 + 1} {
		var got errorsOf
		pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
			if g.Rank() == 1 {
				err := g.AllGatherIntoTensor(t.Context(), colligo.Of(make([]int64, 2)), colligo.Of([]int64{n}))
				if err == nil {
					err = g.Barrier(t.Context())
				}
				got.add(g, err)
				return
			}
			_, err := pg.AllGatherObject(t.Context(), g, pg.JSON, 1)
			require.ErrorContains(t, err, fmt.Sprintf("rank 1 announces an object of %d bytes", n))
			got.add(g, err)
		})
		require.ErrorContains(t, got.byRank[1], "rank 0 reported: ")
	}
	for _, sizes := range [][]int64{{5, -3}, {1, math.MaxInt64}, {pg.DefaultMaxObject, 1}} {
		pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
			if g.Rank() == 1 {
				require.NoError(t, g.Send(t.Context(), colligo.Of(sizes), 0, 0))
				require.Error(t, g.Barrier(t.Context()))
				return
			}
			_, err := pg.RecvObjectList(t.Context(), g, pg.JSON, []int{0, 0}, 1, 0)
			require.ErrorContains(t, err, "for object 1, after")
		})
	}
}

// TestObjectNotDecoded is a failure of the rank that decodes.
func TestObjectNotDecoded(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		var err error
		if g.Rank() == 1 {
			_, err = pg.AllGatherObject(t.Context(), g, pg.JSON, 1)
			require.ErrorContains(t, err, "pg: all_gather_object: object 0 of 3 B as json: ")
		} else {
			_, err = pg.AllGatherObject(t.Context(), g, pg.JSON, any(map[bool]any{true: "x", false: 2}[g.Rank() == 0]))
			require.NoError(t, err)
		}
		list := []string{"kept"}
		if g.Rank() == 0 {
			require.NoError(t, pg.BroadcastObjectList(t.Context(), g, pg.JSON, []int{7}, 0))
		} else {
			require.Error(t, pg.BroadcastObjectList(t.Context(), g, pg.JSON, list, 0))
			require.Equal(t, []string{"kept"}, list)
		}
		require.NoError(t, g.Barrier(t.Context()))
	})
}

// empty writes nothing.
type empty struct{}

func (empty) Name() string                { return "empty" }
func (empty) Marshal(any) ([]byte, error) { return nil, nil }
func (empty) Unmarshal(b []byte, _ any) error {
	if len(b) > 0 {
		return errors.New("not empty")
	}
	return nil
}

// TestEmptyObjects moves objects of 0 bytes.
func TestEmptyObjects(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		got, err := pg.AllGatherObject(t.Context(), g, empty{}, 1)
		require.NoError(t, err)
		require.Equal(t, []int{0, 0, 0}, got)
		_, err = pg.GatherObject(t.Context(), g, empty{}, 1, 2)
		require.NoError(t, err)
		require.NoError(t, pg.BroadcastObjectList(t.Context(), g, empty{}, []int{1}, 2))
		_, err = pg.ScatterObjectList(t.Context(), g, empty{}, map[bool][]int{true: {1, 2, 3}}[g.Rank() == 0], 0)
		require.NoError(t, err)
	})
}

// TestNilPointer has one rank give what gob has no bytes for.
func TestNilPointer(t *testing.T) {
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		mine := &empty{}
		if g.Rank() == 1 {
			mine = nil
		}
		_, err := pg.AllGatherObject(t.Context(), g, pg.Gob, mine)
		require.ErrorContains(t, err, map[int]string{0: "rank 1 could not encode an object", 1: "gob has no nil *pg_test.empty"}[g.Rank()])
		require.NoError(t, g.Barrier(t.Context()))
	})
}

// TestPickleTargets reads pickled values into Go types that hold them exactly, and refuses those that do not.
func TestPickleTargets(t *testing.T) {
	dict := &pickle.Dict{}
	dict.Set("a", int64(1))
	for _, c := range []struct {
		v    any
		into any // pointer; the result is behind it
		want any // nil: refused
	}{
		{int64(7), new(any), int64(7)}, {nil, new(any), nil}, {int64(7), new(int8), int8(7)}, {int64(200), new(int8), nil},
		{int64(-1), new(uint16), nil}, {int64(65535), new(uint16), uint16(65535)},
		{new(big.Int).SetUint64(math.MaxUint64), new(uint64), uint64(math.MaxUint64)}, {int64(3), new(float64), 3.0},
		{int64(1<<53 + 1), new(float64), nil}, {0.1, new(float32), nil}, {0.5, new(float32), float32(0.5)}, {1.0, new(int), nil},
		{"x", new(string), "x"}, {"x", new(int), nil}, {true, new(bool), true}, {true, new(int), nil},
		{[]byte{1}, new([]byte), []byte{1}}, {[]any{int64(1), int64(2)}, new([]int), []int{1, 2}},
		{pickle.Tuple{"a", "b"}, new([]string), []string{"a", "b"}}, {[]any{int64(1), "x"}, new([]int), nil},
		{dict, new(map[string]int), map[string]int{"a": 1}}, {dict, new(map[int]int), nil}, {dict, new(map[string]string), nil},
		{int64(1), new(chan int), nil}, {int64(1), new(map[string]int), nil}, {"x", new([]int), nil},
	} {
		b, err := pg.Pickle.Marshal(c.v)
		require.NoError(t, err)
		err = pg.Pickle.Unmarshal(b, c.into)
		if c.want == nil && c.v != nil {
			require.Error(t, err, "%v into %T", c.v, c.into)
			continue
		}
		require.NoError(t, err, "%v into %T", c.v, c.into)
		require.Equal(t, c.want, deref(c.into))
	}
	require.Error(t, pg.Pickle.Unmarshal([]byte("not a pickle"), new(any)))
}

func deref(p any) any {
	switch p := p.(type) {
	case *any:
		return *p
	case *int8:
		return *p
	case *uint16:
		return *p
	case *uint64:
		return *p
	case *float64:
		return *p
	case *float32:
		return *p
	case *string:
		return *p
	case *bool:
		return *p
	case *[]byte:
		return *p
	case *[]int:
		return *p
	case *[]string:
		return *p
	case *map[string]int:
		return *p
	}
	return p
}
