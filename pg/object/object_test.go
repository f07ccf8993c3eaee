package object_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/object"
	"github.com/colligo-go/colligo/pg/pgtest"
)

var codecs = []object.Codec{object.JSON, object.Gob, object.Pickle}

// objectOf is a rank's object: its length differs from that of every other rank.
func objectOf(rank int) map[string][]string {
	words := []string{"", "é", strings.Repeat("x", 1000*rank)}
	return map[string][]string{fmt.Sprint("rank ", rank): words[:1+rank%3], "all": {"a", "b"}}
}

func objectsOf(n int) []map[string][]string {
	all := make([]map[string][]string, n)
	for r := range all {
		all[r] = objectOf(r)
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

func moveObjects(t *testing.T, g *pg.Group, c object.Codec, root int) {
	ctx, me, size := t.Context(), g.Rank(), g.Size()
	got, err := object.AllGather(ctx, g, c, objectOf(me))
	require.NoError(t, err)
	require.Equal(t, objectsOf(size), got)

	got, err = object.Gather(ctx, g, c, objectOf(me), root)
	require.NoError(t, err)
	if me == root {
		require.Equal(t, objectsOf(size), got)
	} else {
		require.Nil(t, got)
	}

	list := []map[string][]string{objectOf(me), objectOf(me + 1), objectOf(me + 2)}
	require.NoError(t, object.BroadcastList(ctx, g, c, list, root))
	require.Equal(t, []map[string][]string{objectOf(root), objectOf(root + 1), objectOf(root + 2)}, list)

	list = nil
	if me == root {
		list = objectsOf(size)
	}
	one, err := object.ScatterList(ctx, g, c, list, root)
	require.NoError(t, err)
	require.Equal(t, objectOf(me), one)

	if size == 1 {
		return
	}
	list = make([]map[string][]string, 2)
	if me == root {
		for r := range size - 1 {
			source, err := object.RecvList(ctx, g, c, list, colligo.NoRank, 5)
			require.NoError(t, err, "message %d", r)
			require.Equal(t, []map[string][]string{objectOf(source), objectOf(source + 1)}, list)
		}
		for r := range size {
			if r != root {
				require.NoError(t, object.SendList(ctx, g, c, list, r, 6))
			}
		}
		return
	}
	require.NoError(t, object.SendList(ctx, g, c, []map[string][]string{objectOf(me), objectOf(me + 1)}, root, 5))
	source, err := object.RecvList(ctx, g, c, list, root, 6)
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
		moveObjects(t, sub, object.JSON, 1)
		_, err = object.AllGather(t.Context(), map[bool]*pg.Group{true: high, false: low}[g.Rank() < 2], object.JSON, 1)
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
			_, err := object.AllGather(ctx, g, c, v)
			says(err, "pg: all_gather_object: object 0"+as)
			_, err = object.Gather(ctx, g, c, v, 2)
			says(err, "pg: gather_object: object 0"+as)
			list := []any{1, v, 3}
			says(object.BroadcastList(ctx, g, c, list, 1), "pg: broadcast_object_list: object 1"+as)
			require.Equal(t, 1, list[0], "left as it was")
			if g.Rank() != 1 {
				list = nil
			}
			_, err = object.ScatterList(ctx, g, c, list, 1)
			says(err, "pg: scatter_object_list: object 1"+as)
			switch g.Rank() {
			case 0:
				_, err = object.RecvList(ctx, g, c, make([]any, 3), 1, 0)
				says(err, "")
			case 1:
				says(object.SendList(ctx, g, c, list, 0, 0), "pg: send_object_list: object 1"+as)
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
		_, err := object.AllGather(t.Context(), g, object.JSON, fits)
		require.NoError(t, err)
		_, err = object.AllGather(t.Context(), g, object.JSON, large)
		require.ErrorContains(t, err, "MaxObject is 2.9 KiB")
		list := []string{large, large, fits}
		require.ErrorContains(t, object.BroadcastList(t.Context(), g, object.JSON, append(list, fits), 0), map[bool]string{
			true: "MaxObject is", false: "rank 0 could not encode an object"}[g.Rank() == 0])
		require.NoError(t, object.BroadcastList(t.Context(), g, object.JSON, list[:2], 0), "they do not travel padded")
	})
}

// errorsOf collects what each rank's call returned.
type errorsOf struct {
	sync.Mutex
	byRank map[int]error
}

func (e *errorsOf) add(g *pg.Group, err error) {
	e.Lock()
	defer e.Unlock()
	if e.byRank == nil {
		e.byRank = map[int]error{}
	}
	e.byRank[g.Rank()] = err
}

// TestObjectLimitsDiffer has a rank announce what another refuses: the group ends, for the ranks are no longer in step.
func TestObjectLimitsDiffer(t *testing.T) {
	for name, call := range map[string]func(t *testing.T, g *pg.Group) error{
		"all_gather": func(t *testing.T, g *pg.Group) error {
			_, err := object.AllGather(t.Context(), g, object.JSON, strings.Repeat("x", 10_000))
			return err
		},
		"broadcast": func(t *testing.T, g *pg.Group) error {
			return object.BroadcastList(t.Context(), g, object.JSON, []string{strings.Repeat("x", 10_000)}, 0)
		},
		"send": func(t *testing.T, g *pg.Group) error {
			if g.Rank() == 0 {
				return object.SendList(t.Context(), g, object.JSON, []string{strings.Repeat("x", 10_000)}, 1, 0)
			}
			_, err := object.RecvList(t.Context(), g, object.JSON, []string{""}, 0, 0)
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
			_, err := object.AllGather(t.Context(), g, object.JSON, 1)
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
			_, err := object.RecvList(t.Context(), g, object.JSON, []int{0, 0}, 1, 0)
			require.ErrorContains(t, err, "for object 1, after")
		})
	}
}

// TestObjectNotDecoded is a failure of the rank that decodes.
func TestObjectNotDecoded(t *testing.T) {
	pgtest.Run(t, 3, func(t *testing.T, g *pg.Group) {
		var err error
		if g.Rank() == 1 {
			_, err = object.AllGather(t.Context(), g, object.JSON, 1)
			require.ErrorContains(t, err, "pg: all_gather_object: object 0 of 3 B as json: ")
		} else {
			_, err = object.AllGather(t.Context(), g, object.JSON, any(map[bool]any{true: "x", false: 2}[g.Rank() == 0]))
			require.NoError(t, err)
		}
		list := []string{"kept"}
		if g.Rank() == 0 {
			require.NoError(t, object.BroadcastList(t.Context(), g, object.JSON, []int{7}, 0))
		} else {
			require.Error(t, object.BroadcastList(t.Context(), g, object.JSON, list, 0))
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
		got, err := object.AllGather(t.Context(), g, empty{}, 1)
		require.NoError(t, err)
		require.Equal(t, []int{0, 0, 0}, got)
		_, err = object.Gather(t.Context(), g, empty{}, 1, 2)
		require.NoError(t, err)
		require.NoError(t, object.BroadcastList(t.Context(), g, empty{}, []int{1}, 2))
		_, err = object.ScatterList(t.Context(), g, empty{}, map[bool][]int{true: {1, 2, 3}}[g.Rank() == 0], 0)
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
		_, err := object.AllGather(t.Context(), g, object.Gob, mine)
		require.ErrorContains(t, err, map[int]string{0: "rank 1 could not encode an object", 1: "gob has no nil *object_test.empty"}[g.Rank()])
		require.NoError(t, g.Barrier(t.Context()))
	})
}
