package gloo_test

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/object"
	"github.com/colligo-go/colligo/pg/sparse"
	"github.com/colligo-go/colligo/store"
)

// maxObject is the Config.MaxObject of a rank that is fuzzed.
const maxObject = 4 << 10

// readers are the calls of which a rank reads what its peer has sent: sizes before memory is taken for them, indices, objects. The
// others' payloads are numbers, which are only copied or reduced.
var readers = []struct {
	name string
	call func(ctx context.Context, g *pg.Group, peer int) error
}{
	{"sparse", func(ctx context.Context, g *pg.Group, _ int) error {
		const rows, width = 9, 3
		mine := sparse.Tensor{Rows: rows, Indices: []int64{4, 1}, Values: colligo.Of(make([]float32, 2*width), 2, width)}
		sum, err := sparse.AllReduce(ctx, g, mine, colligo.Sum)
		if err != nil {
			return err
		}
		ordered := slices.IsSorted(sum.Indices) && len(slices.Compact(slices.Clone(sum.Indices))) == len(sum.Indices)
		if n := len(sum.Indices); !ordered || n < 2 || n > rows || sum.Indices[0] < 0 || sum.Indices[n-1] >= rows || sum.Values.Len() != n*width {
			return &wrong{sum}
		}
		return nil
	}},
	{"all_gather_object", func(ctx context.Context, g *pg.Group, peer int) error {
		all, err := object.AllGather[any](ctx, g, object.Pickle, "own")
		if err == nil && all[1-peer] != any("own") {
			return &wrong{all}
		}
		return err
	}},
	{"gather_object", func(ctx context.Context, g *pg.Group, peer int) error {
		_, err := object.Gather[any](ctx, g, object.Pickle, "own", 1-peer)
		return err
	}},
	{"gather_object to the peer", func(ctx context.Context, g *pg.Group, peer int) error {
		_, err := object.Gather[any](ctx, g, object.Pickle, "own", peer)
		return err
	}},
	{"broadcast_object_list", func(ctx context.Context, g *pg.Group, peer int) error {
		return object.BroadcastList(ctx, g, object.Pickle, make([]any, 3), peer)
	}},
	{"scatter_object_list", func(ctx context.Context, g *pg.Group, peer int) error {
		_, err := object.ScatterList[any](ctx, g, object.Pickle, nil, peer)
		return err
	}},
	{"recv_object_list", func(ctx context.Context, g *pg.Group, peer int) error {
		_, err := object.RecvList(ctx, g, object.Pickle, make([]any, 2), peer, 5)
		return err
	}},
	{"monitored_barrier", func(ctx context.Context, g *pg.Group, _ int) error {
		return mustNot(g.MonitoredBarrier(ctx, 0, true)) // whatever numbers come
	}},
	{"all_reduce", func(ctx context.Context, g *pg.Group, _ int) error {
		return mustNot(g.AllReduce(ctx, colligo.Of(make([]float32, 33)), colligo.Min))
	}},
}

// wrong is a result that cannot be.
type wrong struct{ result any }

func (*wrong) Error() string { return "a result that cannot be" }

// mustNot makes any error one of the test.
func mustNot(err error) error {
	if err != nil {
		return errors.Join(&wrong{}, err)
	}
	return nil
}

func ints(all ...int64) (b []byte) {
	for _, n := range all {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// rightPayloads are what a peer that keeps to the calls says, by reader.
func rightPayloads() [][]byte {
	const text = "\x80\x03X\x02\x00\x00\x00ab."
	size := int64(len(text))
	return [][]byte{
		append(ints(9, 0, 0, 0, 3, 0, 0, 0, 1, 8), make([]byte, 12)...), append(ints(size), text...), append(ints(size), text...), ints(3),
		append(ints(size, size, size), text+text+text...), append(ints(size), text+string(ints(size))...), append(ints(size, size), text+text...), {1}, nil,
	}
}

// called is what became of a call against an obliging peer.
type called struct {
	err   error
	ended bool // the group has
	asked uint64
}

// against makes a call on one rank of a group of two, whose peer says something.
func against(t *testing.T, which, rank int, says []byte) called {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := store.NewHash()
	peer := &obliging{says: says}
	ended := make(chan error, 1)
	go func() {
		conn, err := dialRank(ctx, s, 1-rank)
		if err != nil {
			ended <- err
			return
		}
		defer conn.Close()
		peer.conn = conn
		ended <- peer.run()
	}()
	g, err := pg.Init(ctx, pg.Config{Backends: "gloo", Torch: "2.6", Store: s, Rank: rank, Size: 2, Interface: "127.0.0.1",
		MaxObject: maxObject, Log: slog.New(slog.DiscardHandler), Recorder: pg.RecorderOptions{DumpOnError: pg.Off}})
	require.NoError(t, err)
	err = readers[which].call(ctx, g, 1-rank)
	require.NoError(t, ctx.Err(), "%s hangs", readers[which].name)
	c := called{err: err, ended: g.Err() != nil}
	require.NoError(t, g.Close())
	require.NoError(t, <-ended)
	c.asked = peer.asked
	return c
}

// TestPayloads has the peer say what is right.
func TestPayloads(t *testing.T) {
	for which, says := range rightPayloads() {
		for rank := range 2 {
			require.NoError(t, against(t, which, rank, says).err, "%s, rank %d", readers[which].name, rank)
		}
	}
}

// FuzzPayloads has a peer of a group of two ranks put anything into the payloads of a call. These are the sizes that begin a sparse
// all_reduce and object collectives, indices, pickled objects, and the numbers of a monitored barrier. The peer keeps to the protocol
// otherwise. The call ends with a result that can be or an error, soon, and the rank asks for no more than Config.MaxObject allows.
// When it refuses the size of what is to come, its group ends, for the peer goes on.
func FuzzPayloads(f *testing.F) {
	for which, says := range rightPayloads() {
		f.Add(uint8(which), false, says)
		f.Add(uint8(which), true, says)
	}
	for _, n := range []int64{-1, -2, math.MinInt64, math.MaxInt64, maxObject, maxObject + 1, 0} {
		f.Add(uint8(0), false, ints(9, 0, 0, 0, 3, 0, 0, 0, n, -1))
		for which := 1; which < 7; which++ {
			f.Add(uint8(which), n%2 == 0, ints(n, n, n))
		}
	}
	f.Add(uint8(0), true, ints(9, 0, 0, 0, 3, 0, 0, 0, 2, 9, 0))
	f.Add(uint8(0), false, ints(9, 0, 0, 0, 0, 0, 0, 0, 2))
	f.Fuzz(func(t *testing.T, which uint8, last bool, says []byte) {
		rank := 0
		if last {
			rank = 1
		}
		c := against(t, int(which)%len(readers), rank, says)
		var bad *wrong
		require.False(t, errors.As(c.err, &bad), "%v: %+v", c.err, bad)
		require.LessOrEqual(t, c.asked, uint64(maxObject))
		require.Equal(t, c.err != nil && strings.Contains(c.err.Error(), "announces"), c.ended, "%v", c.err)
	})
}
