package parity

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

func TestGatherSubgroup(t *testing.T) {
	each(t, 4, func(r *rank) {
		s := r.halves()
		defer s.leave()
		var outs []colligo.Tensor
		if s.Rank() == 0 {
			outs = []colligo.Tensor{full(r, 10, float32(-1)), full(r, 10, float32(-1))}
		}
		require.NoError(r.t, s.Gather(r.ctx, outs, full(r, 10, float32(r.Rank())), 0))
		for from, out := range outs {
			require.Equal(r.t, repeat(10, float32(r.Rank()+from)), values[float32](r, out))
		}
	})
}

func TestReduceSubgroup(t *testing.T) {
	each(t, 4, func(r *rank) {
		s := r.halves()
		defer s.leave()
		x := full(r, 10, float32(r.Rank()))
		require.NoError(r.t, s.Reduce(r.ctx, x, 0, colligo.Sum))
		if s.Rank() == 0 {
			require.Equal(r.t, repeat(10, float32(2*r.Rank()+1)), values[float32](r, x))
		}
	})
}

func TestSendRecvSubgroup(t *testing.T) {
	for _, async := range []bool{true, false} {
		t.Run(fmt.Sprintf("async=%v", async), func(t *testing.T) {
			each(t, 4, func(r *rank) {
				s := r.halves()
				defer s.leave()
				x := full(r, 10, float32(r.Rank()))
				switch {
				case s.Rank() == 0 && async:
					r.waited(s.RecvAsync(r.ctx, x, 1, 0))
				case s.Rank() == 0:
					require.NoError(r.t, s.Recv(r.ctx, x, 1, 0))
				case async:
					r.waited(s.SendAsync(r.ctx, x, 0, 0))
				default:
					require.NoError(r.t, s.Send(r.ctx, x, 0, 0))
				}
				require.Equal(r.t, repeat(10, float32(r.Rank()/2*2+1)), values[float32](r, x))
			})
		})
	}
}

func TestBroadcastSubgroup(t *testing.T) {
	each(t, 4, func(r *rank) {
		s := r.halves()
		defer s.leave()
		x := full(r, 10, float32(r.Rank()))
		require.NoError(r.t, s.Broadcast(r.ctx, x, 1))
		require.Equal(r.t, repeat(10, float32(r.Rank()/2*2+1)), values[float32](r, x))
	})
}

func TestScatterSubgroup(t *testing.T) {
	each(t, 4, func(r *rank) {
		s := r.halves()
		defer s.leave()
		var ins []colligo.Tensor
		if s.Rank() == 1 {
			ins = []colligo.Tensor{full(r, 10, float32(r.Rank()-1)), full(r, 10, float32(r.Rank()))}
		}
		out := full(r, 10, float32(-1))
		require.NoError(r.t, s.Scatter(r.ctx, out, ins, 1))
		require.Equal(r.t, repeat(10, float32(r.Rank())), values[float32](r, out))
	})
}
