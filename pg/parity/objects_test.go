package parity

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/object"
)

// who is the object of these tests.
type who = map[string]int

// overDevice is the rank for object calls: where it has a device, objects travel over that.
func (r *rank) overDevice() *rank {
	if r.gpu == nil {
		return r
	}
	other := *r
	other.ctx = object.OnDevice(r.ctx, r.gpu.Place())
	return &other
}

// carried expects that what the rank has recorded was carried where its tensors lie: devices have a time limit of their own.
func (r *rank) carried() {
	all := r.entries()
	require.NotEmpty(r.t, all)
	for _, e := range all {
		require.Equal(r.t, r.limit(), e.Timeout, "%+v", e)
	}
}

// codecs runs a test with each codec in the halves of four ranks.
func codecs(t *testing.T, f func(r, s *rank, c object.Codec)) {
	for _, c := range []object.Codec{object.JSON, object.Gob, object.Pickle} {
		t.Run(c.Name(), func(t *testing.T) {
			each(t, 4, func(r *rank) {
				s := r.halves().overDevice()
				defer s.leave()
				f(r, s, c)
				s.carried()
			})
		})
	}
}

func TestGatherObjectSubgroup(t *testing.T) {
	codecs(t, func(r, s *rank, c object.Codec) {
		got, err := object.Gather(s.ctx, s.Group, c, who{"rank": r.Rank()}, 0)
		require.NoError(r.t, err)
		if s.Rank() != 0 {
			require.Empty(r.t, got)
			return
		}
		require.Equal(r.t, []who{{"rank": r.Rank()}, {"rank": r.Rank() + 1}}, got)
	})
}

func TestSendRecvObjectListSubgroup(t *testing.T) {
	codecs(t, func(r, s *rank, c object.Codec) {
		list := []who{{"rank": r.Rank()}}
		if s.Rank() == 1 {
			require.NoError(r.t, object.SendList(s.ctx, s.Group, c, list, 0, 0))
			return
		}
		from, err := object.RecvList(s.ctx, s.Group, c, list, 1, 0)
		require.NoError(r.t, err)
		require.Equal(r.t, 1, from)
		require.Equal(r.t, []who{{"rank": r.Rank() + 1}}, list)
	})
}

func TestBroadcastObjectListSubgroup(t *testing.T) {
	codecs(t, func(r, s *rank, c object.Codec) {
		list := []who{{"rank": r.Rank()}}
		require.NoError(r.t, object.BroadcastList(s.ctx, s.Group, c, list, 1))
		require.Equal(r.t, []who{{"rank": r.Rank()/2*2 + 1}}, list)
	})
}

func TestScatterObjectListSubgroup(t *testing.T) {
	codecs(t, func(r, s *rank, c object.Codec) {
		var list []who
		if s.Rank() == 1 {
			list = []who{{"rank": r.Rank() - 1}, {"rank": r.Rank()}}
		}
		got, err := object.ScatterList(s.ctx, s.Group, c, list, 1)
		require.NoError(r.t, err)
		require.Equal(r.t, who{"rank": r.Rank()}, got)
	})
}

// TestOnCompletionHookAllGatherObject hears of the two all-gathers that an all_gather_object is made of.
func TestOnCompletionHookAllGatherObject(t *testing.T) {
	timings(t, 2, options{}, func(r *rank, _ bool) {
		heard := r.hear()
		got, err := object.AllGather(r.overDevice().ctx, r.Group, object.JSON, []string{"c", "foo", "bar"}[:r.Rank()+1])
		require.NoError(r.t, err)
		require.Equal(r.t, [][]string{{"c"}, {"c", "foo"}}, got)
		ops := heard()
		require.Len(r.t, ops, 2)
		for _, o := range ops {
			require.Contains(r.t, []pg.OpType{pg.OpAllGather, pg.OpAllGatherBase}, o.Op)
			require.NoError(r.t, o.Err)
		}
		require.Equal(r.t, ops[0].Seq+1, ops[1].Seq)
		r.carried()
	})
}
