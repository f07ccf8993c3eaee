package parity

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg/object"
)

// ways are how the backend of devices carries objects: by kernels between them, and staged through host memory.
var ways = map[string]func(r *rank) context.Context{
	"peer": func(r *rank) context.Context { return r.ctx },
	"staged": func(r *rank) context.Context {
		if r.gpu == nil {
			return r.ctx
		}
		o := peer.Options{Driver: r.driver, Memory: 24 << 20, Staged: true}
		return peer.With(r.ctx, o)
	},
}

// TestObjectsByDevice moves objects over the device that each call names. Their collectives have the time limit of devices.
func TestObjectsByDevice(t *testing.T) {
	long := strings.Repeat("long ", 100_000) // more than the pinned memory takes at once
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			each(t, 2, func(r *rank) {
				ctx := way(r)
				if r.gpu != nil {
					ctx = object.OnDevice(ctx, r.gpu.Place())
				}
				all, err := object.AllGather(ctx, r.Group, object.Pickle, []string{long, name}[r.Rank():])
				require.NoError(r.t, err)
				require.Equal(r.t, [][]string{{long, name}, {name}}, all)
				parts, err := object.Gather(ctx, r.Group, object.JSON, r.Rank(), 1)
				require.NoError(r.t, err)
				require.Equal(r.t, r.Rank() == 1, len(parts) == 2)
				list := []who{{"rank": r.Rank()}, {}}
				require.NoError(r.t, object.BroadcastList(ctx, r.Group, object.Gob, list, 1))
				require.Equal(r.t, []who{{"rank": 1}, {}}, list)
				own, err := object.ScatterList(ctx, r.Group, object.JSON, list, 0)
				require.NoError(r.t, err)
				require.Equal(r.t, list[r.Rank()], own)
				if r.Rank() == 0 {
					require.NoError(r.t, object.SendList(ctx, r.Group, object.JSON, list, 1, 3))
				} else {
					got := make([]who, 2)
					_, err := object.RecvList(ctx, r.Group, object.JSON, got, 0, 3)
					require.NoError(r.t, err)
					require.Equal(r.t, list, got)
				}
				r.carried()
				there := object.OnDevice(ctx, colligo.Device{})
				numbers, err := object.AllGather(there, r.Group, object.JSON, r.Rank())
				require.NoError(r.t, err)
				require.Equal(r.t, []int{0, 1}, numbers)
			})
		})
	}
}
