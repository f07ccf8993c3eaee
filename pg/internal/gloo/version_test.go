package gloo

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/store/tcpstore"
	links "github.com/colligo-go/colligo/transport/gloo"
)

// TestVersions reads versions, and refuses those whose ranks meet in a way that is not known.
func TestVersions(t *testing.T) {
	for text, want := range map[string]Version{"": {2, 11}, "1.13": {1, 13}, "1.13.1": {1, 13}, "2.6.0": {2, 6}, "2.1": {2, 1}} {
		v, err := ParseVersion(text)
		require.NoError(t, err, text)
		require.Equal(t, want, v)
	}
	for _, text := range []string{"2", "2.0", "1.12", "x.y", "2.x", "3"} {
		_, err := ParseVersion(text)
		require.Error(t, err, text)
	}
	old, late := Version{1, 13}, Version{2, 6}
	require.Equal(t, tcpstore.Torch113, old.Store())
	require.Equal(t, tcpstore.Torch2, late.Store())
	require.Equal(t, links.Old, old.Links())
	require.Equal(t, links.New, late.Links())
}

// TestKeys holds the names of the groups' parts of the store to those of PyTorch.
func TestKeys(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		version Version
		group   string
		number  int
		key     string
	}{
		{Version{1, 13}, "0", 0, "0/0/k"},
		{Version{1, 13}, "1", 1, "1/1/k"},
		{Version{2, 6}, "0", 0, "0//cpu//0/k"},
		{Version{2, 6}, "1", 2, "0//1//cpu//2/k"},
	} {
		s := store.NewHash()
		r := &Rendezvous{Version: c.version, Store: s, Name: c.group}
		require.NoError(t, r.Context(c.number).Set(ctx, "k", nil))
		ok, err := s.Check(ctx, c.key)
		require.NoError(t, err)
		require.True(t, ok, c.key)
	}
}

// TestMeet counts all ranks of the job where the version does, and agrees on a number.
func TestMeet(t *testing.T) {
	ctx := context.Background()
	s := store.NewHash()
	done := make(chan error, 2)
	for rank := range 2 {
		go func() {
			r := &Rendezvous{Version: Version{1, 13}, Store: s, Name: "0", Number: 3, Rank: rank, Job: 2}
			err := r.Meet(ctx)
			if err == nil {
				err = r.Agree(ctx)
			}
			done <- err
		}()
	}
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	n, err := s.Add(ctx, "store_based_barrier_key:3", 0)
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	b, err := s.Get(ctx, "0/SEQ_NUM_STORE_KEY")
	require.NoError(t, err)
	require.Len(t, b, 8)
	require.NoError(t, (&Rendezvous{Version: Version{2, 6}}).Meet(ctx), "later versions do nothing")
}

// TestCheck holds the calls that are refused to the version.
func TestCheck(t *testing.T) {
	call := func() *op.Op { return &op.Op{Size: 2} }
	f := colligo.Of(make([]float32, 4))
	half := colligo.Of(make([]float32, 2))
	list := []colligo.Tensor{half, colligo.Of(make([]float32, 2))}
	for _, c := range []struct {
		o    *op.Op
		from Version // that has it
	}{
		{call().AllReduce(f, colligo.Sum), Version{1, 13}},
		{call().AllReduce(f, colligo.Avg), Version{2, 8}},
		{call().AllReduce(colligo.Bytes(make([]byte, 2), colligo.BFloat16), colligo.Sum), Version{2, 1}},
		{call().AllReduce(colligo.Of(make([]uint32, 1)), colligo.Sum), Version{99, 0}},
		{call().ReduceScatterTensor(half, f, colligo.Sum), Version{2, 3}},
		{call().ReduceScatter(half, list, colligo.Sum), Version{2, 8}},
		{call().AllGatherInto(colligo.Of([]float32{}), colligo.Of([]float32{})), Version{2, 1}},
		{call().Barrier(colligo.Device{}), Version{1, 13}},
	} {
		for _, v := range []Version{{1, 13}, {2, 1}, {2, 3}, {2, 6}, {2, 8}, {2, 12}} {
			if c.o.Wrong() != nil {
				continue
			}
			err := New(0, 2, v, nil).Check(c.o)
			require.Equal(t, v.From(c.from.Major, c.from.Minor), err == nil, "%v of %v %s: %v", v, c.o.Type(), c.o.What(), err)
		}
	}
}
