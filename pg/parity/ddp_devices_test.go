package parity

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/ddp"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// spread is a model with one parameter on each of several devices of a rank. It works on the devices' default streams.
type spread struct {
	devices []*rank
}

func (s *spread) on(d colligo.Device) *rank {
	for _, r := range s.devices {
		if r.gpu.Place() == d {
			return r
		}
	}
	panic(fmt.Sprintf("parity: the rank has nothing on %v", d))
}

// Alloc takes memory on one of the devices.
func (s *spread) Alloc(d colligo.Device, t colligo.DType, count int) (colligo.Tensor, error) {
	return deviceMemory{s.on(d)}.Alloc(d, t, count)
}

// Copy copies on the device of both tensors.
func (s *spread) Copy(ctx context.Context, dst, src colligo.Tensor) error {
	return deviceMemory{s.on(dst.Device())}.Copy(ctx, dst, src)
}

// machine is where ranks have several devices each, and the backend that carries their operations: NCCL if there is a library.
type machine struct {
	d       *cuda.Driver
	library *nccl.Library
}

// devicesOf runs f on two ranks with k devices each.
func (m *machine) devicesOf(t *testing.T, k int, f func(g *pg.Group, ctx context.Context, s *spread)) {
	o := pgtest.Options{RealTime: true}
	if m.library != nil {
		o.Config = func(_ int, c *pg.Config) { c.Backends = overNCCL }
	}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
		s, d := &spread{}, m.d
		ctx := peer.With(t.Context(), peer.Options{Driver: d, Memory: 24 << 20})
		if m.library != nil {
			ctx = nccl.With(ctx, nccl.Options{Driver: d, Library: m.library})
		}
		for i := range k {
			dev, err := d.Device(g.Rank()*k + i)
			require.NoError(t, err)
			r := &rank{Group: g, t: t, ctx: ctx, gpu: dev, arena: &arena{}}
			r.settle()
			s.devices = append(s.devices, r)
		}
		f(g, ctx, s)
		require.NoError(t, g.Close())
		for _, r := range s.devices {
			r.enter(func(th cuda.Thread) error { return errors.Join(th.Free(r.begin), th.FreeHost(r.host)) })
			require.NoError(t, r.gpu.Close())
		}
	})
}

// onSeveral trains two ranks with k devices each.
func onSeveral(t *testing.T, on *machine, k int) {
	on.devicesOf(t, k, func(g *pg.Group, ctx context.Context, s *spread) {
		var params []ddp.Parameter
		for i, r := range s.devices {
			params = append(params, ddp.Parameter{Name: fmt.Sprintf("fc%d", i), Grad: full(r, 10, float32(g.Rank()+i))})
		}
		m, err := ddp.New(ctx, g, params, ddp.Options{Memory: s})
		require.NoError(t, err)
		require.Len(t, m.Buckets(), k)
		for i := range params {
			require.NoError(t, m.Ready(ctx, i))
		}
		require.NoError(t, m.Finish(ctx))
		for i, r := range s.devices {
			require.Equal(t, repeat(10, float32(i)+0.5), values[float32](r, params[i].Grad))
		}
	})
}

func modules(t *testing.T, k int) {
	machines(t, k, func(t *testing.T, on *machine) { onSeveral(t, on, k) })
}

// machines runs f on devices by the own backend, and on simulated ones by a simulated NCCL.
func machines(t *testing.T, k int, f func(t *testing.T, on *machine)) {
	severalDevices(t, k, func(t *testing.T, d *cuda.Driver) { f(t, &machine{d: d}) })
	runs(t, onNCCL)
	t.Run("nccl", func(t *testing.T) {
		d := simulated(t, 2*k)
		f(t, &machine{d, simulatedNCCL(t, d)})
	})
}

// severalDevices runs f on simulated devices, and on real ones if there are enough.
func severalDevices(t *testing.T, k int, f func(t *testing.T, d *cuda.Driver)) {
	runs(t, onCudasim, onGPU)
	t.Run("cudasim", func(t *testing.T) { f(t, simulated(t, 2*k)) })
	if os.Getenv("COLLIGO_GPU") == "" {
		return
	}
	d, err := cuda.Open()
	require.NoError(t, err)
	n, err := d.Devices()
	require.NoError(t, err)
	if n >= 2*k {
		t.Run("gpu", func(t *testing.T) { f(t, d) })
	}
}

// TestGradLayout2DeviceModule has two of four layers on each of two devices of a rank.
func TestGradLayout2DeviceModule(t *testing.T) {
	machines(t, 2, func(t *testing.T, on *machine) {
		on.devicesOf(t, 2, func(g *pg.Group, ctx context.Context, s *spread) {
			layouts(t, g, ctx, s, func(layer int) *rank { return s.devices[layer/2] })
		})
	})
}

func TestNCCLBackend2GPUModule(t *testing.T) { modules(t, 2) }
func TestNCCLBackend4GPUModule(t *testing.T) { modules(t, 4) }
