package nccl_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/gpu"
)

// process is one process with several simulated devices, and a rank's tools for each of them.
type process struct {
	*nccl.Devices
	t       *testing.T
	sim     *ncclsim.Sim
	library *nccl.Library
	on      []*rank
}

// engines are the names that gpu.NewDevices takes.
var engines = []string{gpu.NCCL, gpu.Peer}

// onDevices calls f with n devices of one process. The tools of even devices have a stream of their own, the others the default one.
func onDevices(t *testing.T, n int, engine string, f func(p *process)) *ncclsim.Sim {
	t.Helper()
	devices := cudasim.New(cudasim.Config{Devices: n, Seed: 1, Patience: simPatience})
	cudasim.Limit(t, devices)
	require.NoError(t, model.Register(devices))
	for _, k := range []colligo.OpKind{colligo.KindSum, colligo.KindMin, colligo.KindMax} {
		require.NoError(t, model.RegisterReduction(devices, colligo.Int64, k))
	}
	p := &process{t: t, sim: ncclsim.New(devices.Driver(), ncclsim.Version)}
	var err error
	p.library, err = p.sim.Library()
	require.NoError(t, err)
	ctx := peer.With(t.Context(), peer.Options{Driver: devices.Driver(), Memory: 24 << 20})
	p.Devices, err = gpu.NewDevices(nccl.With(ctx, nccl.Options{Library: p.library}), engine)
	require.NoError(t, err)
	require.Equal(t, engine, p.Engine())
	for i := range n {
		r := &rank{}
		r.device, err = devices.Driver().Device(i)
		require.NoError(t, err)
		if i%2 == 0 {
			require.NoError(t, r.on(func(t cuda.Thread) (err error) { r.stream, err = t.NewStream(0); return err }))
		}
		p.on = append(p.on, r)
	}
	f(p)
	for _, r := range p.on {
		require.NoError(t, r.on(func(t cuda.Thread) error { return t.Synchronize(r.stream) }))
	}
	require.NoError(t, p.Close())
	for _, r := range p.on {
		require.NoError(t, r.on(func(t cuda.Thread) (err error) {
			for _, at := range r.memory {
				err = errors.Join(err, t.Free(at))
			}
			if r.stream != 0 {
				err = errors.Join(err, t.DestroyStream(r.stream))
			}
			return err
		}))
	}
	require.NoError(t, p.sim.Close())
	for _, r := range p.on {
		require.NoError(t, r.device.Close())
	}
	devices.Drain()
	require.Empty(t, devices.Races())
	devices.Close()
	return p.sim
}

// streams are the streams of the first n devices.
func (p *process) streams(n int) nccl.ListOptions {
	var all []cuda.Stream
	for _, r := range p.on[:n] {
		all = append(all, r.stream)
	}
	return nccl.ListOptions{Streams: all}
}

// list returns a tensor of n elements on each of some devices. Element i of device d is 100 d + i.
func (p *process) list(devices, n int) (all []colligo.Tensor) {
	for d := range devices {
		v := make([]int64, n)
		for i := range v {
			v[i] = int64(100*d + i)
		}
		x, err := p.on[d].moved(colligo.Of(v))
		require.NoError(p.t, err)
		all = append(all, x)
	}
	return all
}

// has compares a tensor of the device d, element by element.
func (p *process) has(d int, x colligo.Tensor, want func(i int) int64) {
	p.t.Helper()
	v := make([]int64, x.Len())
	for i := range v {
		v[i] = want(i)
	}
	got, err := p.on[d].bytes(x)
	require.NoError(p.t, err)
	require.Equal(p.t, colligo.Of(v).CPUBytes(), got, "device %d", d)
}

// TestDevices carries out every collective among the devices of one process, by each engine.
func TestDevices(t *testing.T) {
	for i := range 4 * len(engines) {
		n, engine := 1+i/len(engines), engines[i%len(engines)]
		t.Run(fmt.Sprint(engine, " ", n), func(t *testing.T) {
			onDevices(t, n, engine, func(p *process) {
				o, total := p.streams(n), int64(100*n*(n-1)/2)
				ins, outs := p.list(n, 6), p.list(n, 6)
				require.NoError(t, p.AllReduce(ins, outs, colligo.Sum, o))
				for d := range outs {
					p.has(d, outs[d], func(i int) int64 { return total + int64(n*i) })
					p.has(d, ins[d], func(i int) int64 { return int64(100*d + i) })
				}
				require.NoError(t, p.AllReduce(ins, nil, colligo.Max, o))
				for d := range ins {
					p.has(d, ins[d], func(i int) int64 { return int64(100*(n-1) + i) })
				}
				for root := range n {
					ins, outs = p.list(n, 6), p.list(n, 6)
					require.NoError(t, p.Reduce(ins, outs[root], root, colligo.Sum, o))
					p.has(root, outs[root], func(i int) int64 { return total + int64(n*i) })
					require.NoError(t, p.Reduce(ins, colligo.Tensor{}, root, colligo.Min, o))
					p.has(root, ins[root], func(i int) int64 { return int64(i) })
				}
				ins = p.list(n, 6)
				require.NoError(t, p.Broadcast(ins, o))
				for d := range ins {
					p.has(d, ins[d], func(i int) int64 { return int64(i) })
				}
				ins, outs = p.list(n, 6), p.list(n, 6*n)
				require.NoError(t, p.AllGather(ins, outs, o))
				for d := range outs {
					p.has(d, outs[d], func(i int) int64 { return int64(100*(i/6) + i%6) })
				}
				ins, outs = p.list(n, 6*n), p.list(n, 6)
				require.NoError(t, p.ReduceScatter(ins, outs, colligo.Sum, o))
				for d := range outs {
					p.has(d, outs[d], func(i int) int64 { return total + int64(n*(6*d+i)) })
				}
			})
		})
	}
}

// TestDevicesCommunicators makes communicators once for each list of devices, in its order, and takes the caller's.
func TestDevicesCommunicators(t *testing.T) {
	s := onDevices(t, 3, gpu.NCCL, func(p *process) {
		ts := p.list(3, 4)
		turned := []colligo.Tensor{ts[2], ts[0], ts[1]}
		for range 2 {
			require.NoError(t, p.Broadcast(ts, nccl.ListOptions{}))
			require.NoError(t, p.Broadcast(ts[:2], nccl.ListOptions{}))
			require.NoError(t, p.Broadcast(turned, nccl.ListOptions{}))
		}
		require.Equal(t, 3, count(p.sim.Calls(), "ncclCommInitAll"))
		own, err := p.library.NewComms([]int{0, 1})
		require.NoError(t, err)
		for _, r := range p.on {
			require.NoError(t, r.on(func(t cuda.Thread) error { return errors.Join(t.Synchronize(0), t.Synchronize(r.stream)) }))
		}
		o := p.streams(2)
		o.Comms = own
		again := p.list(2, 4)
		require.NoError(t, p.AllReduce(again, nil, colligo.Sum, o))
		for d := range again {
			p.has(d, again[d], func(i int) int64 { return 100 + 2*int64(i) })
		}
		require.Equal(t, 4, count(p.sim.Calls(), "ncclCommInitAll"), "that of the caller")
		require.NoError(t, errors.Join(own[0].Close(), own[1].Close()))
	})
	calls := s.Calls()
	require.Equal(t, count(calls, "ncclGroupStart"), count(calls, "ncclGroupEnd"))
	require.Equal(t, 7, count(calls, "ncclGroupStart"), "one group for each call")
}

// TestDevicesRefused has c10d's words for lists that do not fit, with each engine. Nothing is called then.
func TestDevicesRefused(t *testing.T) {
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) { refusedBy(t, engine) })
	}
}

func refusedBy(t *testing.T, engine string) {
	s := onDevices(t, 2, engine, func(p *process) {
		ts, long := p.list(2, 6), p.list(2, 12)
		float, err := p.on[1].moved(colligo.Of(make([]float64, 6)))
		require.NoError(t, err)
		again, err := p.on[0].moved(colligo.Of(make([]int64, 6)))
		require.NoError(t, err)
		host := colligo.Of(make([]int64, 6))
		gaps := long[1].Strided(0, []int{6}, []int{2})
		none := nccl.ListOptions{}
		for text, err := range map[string]error{
			"input sequence can't be empty": p.AllReduce(nil, nil, colligo.Sum, none),
			"inputs and outputs sequences have to be of the same length, but got input of length 2 and output of length 1": p.AllReduce(ts, ts[:1], colligo.Sum, none),
			"input and output elements have to be cuda dense Tensors":                                                      p.Broadcast([]colligo.Tensor{ts[0], host}, none),
			"all inputs and outputs must be of the same Tensor dtype":                                                      p.Broadcast([]colligo.Tensor{ts[0], float}, none),
			"all inputs and outputs have to be contiguous":                                                                 p.Broadcast([]colligo.Tensor{ts[0], gaps}, none),
			"all inputs must have the same number of elements":                                                             p.Broadcast([]colligo.Tensor{ts[0], long[1]}, none),
			"input and output must be on the same device":                                                                  p.AllReduce(ts, []colligo.Tensor{ts[1], ts[0]}, colligo.Sum, none),
			"output must be of size input_size * size_multiplier":                                                          p.AllGather(ts, ts, none),
			"inputs must be on unique devices":                                                                             p.Broadcast([]colligo.Tensor{ts[0], again}, none),
			"invalid root":                                                                                                 p.Reduce(ts, ts[0], 2, colligo.Sum, none),
			"1 streams for 2 inputs":                                                                                       p.Broadcast(ts, p.streams(1)),
			"1 communicators for 2 inputs":                                                                                 p.Broadcast(ts, nccl.ListOptions{Comms: make([]*nccl.Comm, 1)}),
		} {
			require.ErrorContains(t, err, text)
			require.Regexp(t, "^"+engine+": [a-z_]+ of a list: ", err.Error())
		}
		require.ErrorContains(t, p.AllReduce(ts, nil, colligo.PremulSum(2), none), "premultiplied sum")
		require.ErrorContains(t, p.ReduceScatter(ts, ts, colligo.Sum, none), "output must be of size input_size * size_multiplier")
		require.ErrorContains(t, p.Reduce(ts, ts[0], 1, colligo.Sum, none), "input and output must be on the same device")
		require.True(t, nccl.IsAvailable(ts))
		for _, bad := range [][]colligo.Tensor{{ts[0], again}, {ts[0], host}, {ts[0], gaps}} {
			require.False(t, nccl.IsAvailable(bad))
		}
	})
	require.False(t, slices.ContainsFunc(s.Calls(), func(c string) bool { return c != "ncclMemAlloc" }), "%v", s.Calls())
}

// TestDevicesErrors has a reduction that the library lacks, and a call that fails. The next call is right.
func TestDevicesErrors(t *testing.T) {
	onDevices(t, 2, gpu.NCCL, func(p *process) {
		ts, o := p.list(2, 6), p.streams(2)
		require.ErrorContains(t, p.AllReduce(ts, nil, colligo.BXor, o), "Cannot use ReduceOp.BXOR with NCCL")
		require.ErrorContains(t, p.AllReduce(ts, nil, colligo.PremulSum(2), o), "premultiplied sum")
		p.sim.Fail("ncclCommInitAll", nccl.SystemError)
		three := nccl.ListOptions{}
		require.ErrorContains(t, p.Broadcast(ts[:1], three), "ncclSystemError")
		p.sim.Fail("ncclGroupStart", nccl.InternalError)
		require.ErrorContains(t, p.Broadcast(ts, o), "ncclInternalError")
		require.NoError(t, p.AllReduce(ts, nil, colligo.Sum, o))
		for d := range ts {
			p.has(d, ts[d], func(i int) int64 { return 100 + 2*int64(i) })
		}
	})
}
