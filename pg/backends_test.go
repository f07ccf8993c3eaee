package pg_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/pgtest"
)

// gadget is a kind of device that only these tests have, with two backends.
const gadget colligo.DeviceKind = 40

// gadgets counts what its backends do.
var gadgets struct {
	sync.Mutex
	opened, closed map[string]int // by name and device
}

// gadgetBackend carries nothing out.
type gadgetBackend struct{ name string }

func (b *gadgetBackend) Run(context.Context, *backend.Call) (backend.Pending, error) { return nil, nil }
func (b *gadgetBackend) Abort(error)                                                 {}
func (b *gadgetBackend) Close() error {
	count(&gadgets.closed, b.name)
	return nil
}

func count(m *map[string]int, name string) {
	gadgets.Lock()
	defer gadgets.Unlock()
	if *m == nil {
		*m = map[string]int{}
	}
	(*m)[name]++
}

func gadgetOpener(name string) backend.Opener {
	return func(_ context.Context, _ backend.Host, d colligo.Device) (backend.Backend, error) {
		full := name + " " + d.String()
		count(&gadgets.opened, full)
		return &gadgetBackend{full}, nil
	}
}

func init() {
	backend.Register(gadget, "another", gadgetOpener("another"))
	backend.Register(gadget, backend.Native, gadgetOpener("peer"))
}

// onGadget is two elements of a device.
func onGadget(index int) colligo.Tensor {
	return colligo.OnDevice(colligo.Device{Kind: gadget, Index: index}, 0x1000, 2, colligo.Float32)
}

// TestBackendNames says what groups use for a device: the native backend, or what they, or the group that they were made
// of, were told to.
func TestBackendNames(t *testing.T) {
	require.Equal(t, []string{"peer", "another"}, backend.Names(gadget))
	require.Equal(t, []string{"host", "gloo"}, backend.Names(colligo.CPU))
	require.Panics(t, func() { backend.Register(gadget, backend.Native, gadgetOpener("")) })
	require.Panics(t, func() { backend.Register(gadget, "a:b", gadgetOpener("")) })
	require.Panics(t, func() { backend.Register(colligo.CPU, backend.Native, gadgetOpener("")) })
	pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
		ctx := t.Context()
		for _, c := range []struct{ backends, want, config string }{
			{"", "peer", ""},
			{"another", "another", "cpu:host,device(40):another"},
			{"cpu:host, Device(40):another", "another", "cpu:host,device(40):another"},
			{"device(40):peer", "peer", "cpu:host,device(40):peer"},
			{"cpu:host", "", "cpu:host"},
			{"host", "", "cpu:host"},
		} {
			n, err := g.NewGroupWith(ctx, []int{0, 1}, pg.GroupOptions{Backends: c.backends})
			require.NoError(t, err, c.backends)
			require.Equal(t, c.want, n.Backend(gadget))
			require.Equal(t, "host", n.Backend(colligo.CPU))
			if c.config != "" {
				require.Equal(t, c.config, n.BackendConfig())
			}
			child, err := n.NewGroup(ctx, []int{0, 1})
			require.NoError(t, err)
			require.Equal(t, n.BackendConfig(), child.BackendConfig())
			err = n.AllReduce(ctx, onGadget(0), colligo.Sum)
			if c.want == "" {
				require.ErrorContains(t, err, "no backend for device(40) tensors in this group, which has cpu:host")
			} else {
				require.NoError(t, err)
			}
			require.NoError(t, n.Barrier(ctx), "a call that was refused leaves the group as it was")
		}
		for backends, says := range map[string]string{
			"nope":                                "no backend \"nope\" in this program: there are cpu:host",
			"device(40):nope":                     "no backend \"nope\" for device(40) in this program: there are cpu:host",
			"cpu:peer":                            "no backend \"peer\" for cpu in this program",
			"tpu:peer":                            "no device is called \"tpu\"",
			"host,peer":                           "\"host\" names no device",
			"device(40):peer,device(40):another":  "name two for device(40)",
			"cpu:host,device(40):peer,":           "names no device",
			"cpu:host,device(40):another:further": "no backend \"another:further\"",
		} {
			_, err := g.NewGroupWith(ctx, []int{0, 1}, pg.GroupOptions{Backends: backends})
			require.ErrorContains(t, err, says)
		}
	})
	_, err := pg.Init(t.Context(), pg.Config{Init: "tcp://127.0.0.1:0", Size: 1, Backends: "nope"})
	require.ErrorContains(t, err, "pg: init: no backend \"nope\" in this program")
}

// TestBoundDevice opens the backend of the device when the group forms, and refuses tensors on others.
func TestBoundDevice(t *testing.T) {
	const index = 77 // of no other test
	config := func(rank int, c *pg.Config) {
		c.Device, c.Backends = colligo.Device{Kind: gadget, Index: index + rank}, "another"
	}
	opened := func(rank int) (n, ended int) {
		gadgets.Lock()
		defer gadgets.Unlock()
		name := "another " + colligo.Device{Kind: gadget, Index: index + rank}.String()
		return gadgets.opened[name], gadgets.closed[name]
	}
	before, _ := opened(0) // by earlier runs, as often as of rank 1
	pgtest.RunWith(t, 2, pgtest.Options{Config: config}, func(t *testing.T, g *pg.Group) {
		n, _ := opened(g.Rank())
		require.Equal(t, before+1, n, "before anything was called")
		ctx := t.Context()
		require.NoError(t, g.AllReduce(ctx, onGadget(index+g.Rank()), colligo.Sum))
		require.ErrorContains(t, g.AllReduce(ctx, onGadget(0), colligo.Sum), "a tensor on device(40):0, and the group is bound to device(40):7")
		require.NoError(t, g.Barrier(ctx), "a call that was refused leaves the group as it was")
		child, err := g.NewGroup(ctx, []int{0, 1})
		require.NoError(t, err)
		require.Equal(t, g.Device(), child.Device())
		n, _ = opened(g.Rank())
		require.Equal(t, before+2, n)
	})
	for rank := range 2 {
		n, ended := opened(rank)
		require.Equal(t, n, ended, "all are closed")
	}
}

// TestBoundByOne has only one rank bind the group to a device: the others would not come to open the backend.
func TestBoundByOne(t *testing.T) {
	var failed sync.Map
	o := pgtest.Options{
		Config: func(rank int, c *pg.Config) {
			if rank == 1 {
				c.Device = colligo.Device{Kind: gadget}
			}
		},
		InitError: func(_ *testing.T, rank int, err error) { failed.Store(rank, err) },
	}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) { t.Errorf("rank %d has joined", g.Rank()) })
	all := errors.Join(load(&failed, 0), load(&failed, 1))
	require.ErrorContains(t, all, "binds the group to")
	require.ErrorContains(t, all, "no device")
}

func load(m *sync.Map, rank int) error {
	err, _ := m.Load(rank)
	return err.(error)
}

// TestBackendsDiffer has ranks ask for different backends.
func TestBackendsDiffer(t *testing.T) {
	var failed sync.Map
	o := pgtest.Options{
		Config:    func(rank int, c *pg.Config) { c.Backends = []string{"peer", "another"}[rank] },
		InitError: func(_ *testing.T, rank int, err error) { failed.Store(rank, err) },
	}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) { t.Errorf("rank %d has joined", g.Rank()) })
	require.ErrorContains(t, errors.Join(load(&failed, 0), load(&failed, 1)), "wants backends cpu:host,")
}
