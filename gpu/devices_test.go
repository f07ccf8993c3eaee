package gpu_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/gpu"
)

// list is an array of each device of a simulator, which f of onLists sums and frees.
type list []*cuda.Array[int32]

func (l list) tensors() (all []colligo.Tensor) {
	for _, a := range l {
		all = append(all, a.Tensor())
	}
	return all
}

// onLists calls f with the devices of a simulated process and an array of 1, 2, 3 on each.
func onLists(t *testing.T, c cudasim.Config, engine string, f func(ctx context.Context, x *nccl.Devices, l list, read func() [][]int32)) {
	t.Helper()
	c.Patience = simPatience
	sim := cudasim.New(c)
	cudasim.Limit(t, sim)
	require.NoError(t, model.Register(sim))
	for _, k := range []colligo.OpKind{colligo.KindSum, colligo.KindBXor} {
		require.NoError(t, model.RegisterReduction(sim, colligo.Int32, k))
	}
	ctx := peer.With(t.Context(), peer.Options{Driver: sim.Driver(), Memory: 24 << 20})
	x, err := gpu.NewDevices(ctx, engine)
	require.NoError(t, err)
	var on []*cuda.Device
	var l list
	each := func(f func(i int, t cuda.Thread) error) {
		for i, d := range on {
			th, err := d.Enter()
			require.NoError(t, err)
			require.NoError(t, f(i, th))
			th.Leave()
		}
	}
	for i := range c.Devices {
		d, err := sim.Driver().Device(i)
		require.NoError(t, err)
		on = append(on, d)
	}
	each(func(i int, t cuda.Thread) error {
		a, err := cuda.NewArray[int32](t, 3)
		l = append(l, a)
		return errors.Join(err, a.Write(t, []int32{1, 2, 3}, 0))
	})
	f(ctx, x, l, func() [][]int32 {
		all := make([][]int32, len(l))
		each(func(i int, t cuda.Thread) error { all[i] = make([]int32, 3); return l[i].Read(t, all[i], 0) })
		return all
	})
	require.NoError(t, x.Close())
	each(func(i int, t cuda.Thread) error { return l[i].Free(t) })
	for _, d := range on {
		require.NoError(t, d.Close())
	}
	cudasim.Check(t, sim)
}

// TestDevicesWithoutNCCL takes this library's own engine where there is no NCCL, and says so once. It has reductions that NCCL lacks.
func TestDevicesWithoutNCCL(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	onLists(t, cudasim.Config{Devices: 3}, "", func(ctx context.Context, x *nccl.Devices, l list, read func() [][]int32) {
		require.Equal(t, gpu.Peer, x.Engine())
		require.NoError(t, x.AllReduce(l.tensors(), nil, colligo.Sum, nccl.ListOptions{}))
		require.Equal(t, [][]int32{{3, 6, 9}, {3, 6, 9}, {3, 6, 9}}, read())
		require.NoError(t, x.AllReduce(l.tensors(), nil, colligo.BXor, nccl.ListOptions{}))
		require.Equal(t, [][]int32{{3, 6, 9}, {3, 6, 9}, {3, 6, 9}}, read(), "of three equal ones")
		require.ErrorContains(t, x.Broadcast(l.tensors(), nccl.ListOptions{Comms: make([]*nccl.Comm, 3)}), "communicators are NCCL's")
		_, err := gpu.NewDevices(ctx, gpu.NCCL)
		require.ErrorIs(t, err, nccl.ErrNotFound)
		_, err = gpu.NewDevices(ctx, "rccl")
		require.EqualError(t, err, `gpu: devices: no engine "rccl": there are "nccl" and "peer"`)
	})
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("\n")), log.String())
	require.Contains(t, log.String(), "carried by this library's own kernels, not by NCCL")
	require.Contains(t, log.String(), "no NCCL library for a driver that is not the machine's")
}

// TestDevicesApart stages through host memory where the devices do not reach each other.
func TestDevicesApart(t *testing.T) {
	c := cudasim.Config{Devices: 2, CanAccess: func(int, int) bool { return false }}
	onLists(t, c, gpu.Peer, func(_ context.Context, x *nccl.Devices, l list, read func() [][]int32) {
		require.NoError(t, x.AllReduce(l.tensors(), nil, colligo.Sum, nccl.ListOptions{}))
		require.Equal(t, [][]int32{{2, 4, 6}, {2, 4, 6}}, read())
	})
}

// TestDevicesAfterError has one device alone refuse its part, so that the others are not left waiting. The next call is right.
func TestDevicesAfterError(t *testing.T) {
	onLists(t, cudasim.Config{Devices: 2}, gpu.Peer, func(_ context.Context, x *nccl.Devices, l list, read func() [][]int32) {
		for _, warm := range []bool{false, true} {
			if warm {
				require.NoError(t, x.Broadcast(l.tensors(), nccl.ListOptions{}))
			}
			wrong := l.tensors()
			wrong[1] = colligo.OnDevice(wrong[1].Device(), wrong[0].Addr(), 3, colligo.Int32) // memory of the other device
			begin := time.Now()
			err := x.AllReduce(wrong, nil, colligo.Sum, nccl.ListOptions{})
			require.ErrorContains(t, err, "peer: all_reduce of a list: ")
			require.Less(t, time.Since(begin), time.Minute/2)
		}
		require.NoError(t, x.Broadcast(l.tensors(), nccl.ListOptions{}))
		require.Equal(t, [][]int32{{1, 2, 3}, {1, 2, 3}}, read())
	})
}
