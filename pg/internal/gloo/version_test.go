package gloo

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/store/tcpstore"
	links "github.com/colligo-go/colligo/transport/gloo"
)

// TestVersions refuses versions whose ranks meet in a way that is not known, and tells what differs between others.
func TestVersions(t *testing.T) {
	for _, v := range []Version{at(2, 11), at(1, 13), at(2, 6), at(2, 1)} {
		require.NoError(t, Known(v), v)
	}
	for _, v := range []Version{at(2, 0), at(1, 12)} {
		require.Error(t, Known(v), v)
	}
	old, late := at(1, 13), at(2, 6)
	require.Equal(t, tcpstore.Torch113, Dialect(old))
	require.Equal(t, tcpstore.Torch2, Dialect(late))
	require.Equal(t, links.Old, Links(old))
	require.Equal(t, links.New, Links(late))
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
		{call().AllReduce(f, colligo.Sum), at(1, 13)},
		{call().AllReduce(f, colligo.Avg), at(2, 8)},
		{call().AllReduce(colligo.Bytes(make([]byte, 2), colligo.BFloat16), colligo.Sum), at(2, 1)},
		{call().AllReduce(colligo.Of(make([]uint32, 1)), colligo.Sum), at(99, 0)},
		{call().ReduceScatterTensor(half, f, colligo.Sum), at(2, 3)},
		{call().ReduceScatterTensor(half, f, colligo.Max), at(2, 8)},
		{call().ReduceScatter(half, list, colligo.Sum), at(2, 8)},
		{call().AllGatherInto(colligo.Of([]float32{}), colligo.Of([]float32{})), at(2, 1)},
		{call().Barrier(colligo.Device{}), at(1, 13)},
	} {
		for _, v := range []Version{at(1, 13), at(2, 1), at(2, 3), at(2, 6), at(2, 8), at(2, 12)} {
			if c.o.Wrong() != nil {
				continue
			}
			err := New(0, 2, v, nil).Check(c.o)
			require.Equal(t, v.From(c.from.Major, c.from.Minor), err == nil, "%v of %v %s: %v", v, c.o.Type(), c.o.What(), err)
		}
	}
}

// at returns a version.
func at(major, minor int) Version { return Version{Major: major, Minor: minor} }
