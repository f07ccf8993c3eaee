package pg_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/pgtest"
)

const stagerKind = colligo.DeviceKind(103)

// carrier is a backend whose device is the memory of the process and that carries objects.
type carrier struct {
	h       backend.Host
	mu      sync.Mutex
	memory  map[uintptr][]byte // that is staged
	said    []string
	refuses bool // to stage
}

func (c *carrier) host(t colligo.Tensor) colligo.Tensor {
	if !t.Valid() {
		return t
	}
	return colligo.Raw(*(*unsafe.Pointer)(unsafe.Pointer(&[]uintptr{t.Addr()}[0])), t.Len(), t.DType()) // memory keeps it
}

func (c *carrier) hosts(ts []colligo.Tensor) (all []colligo.Tensor) {
	for _, t := range ts {
		all = append(all, c.host(t))
	}
	return all
}

func (c *carrier) Run(ctx context.Context, r *backend.Call) (backend.Pending, error) {
	c.said = append(c.said, fmt.Sprintf("%v %v", r.Coll, r.DType))
	there := *r
	there.In, there.Out, there.Ins, there.Outs = c.host(r.In), c.host(r.Out), c.hosts(r.Ins), c.hosts(r.Outs)
	return nil, c.h.Do(ctx, &there)
}

func (c *carrier) Abort(error) {}

func (c *carrier) Close() error {
	if len(c.memory) > 0 {
		return fmt.Errorf("%d pieces of memory are left", len(c.memory))
	}
	return nil
}

func (c *carrier) Stage(_ context.Context, b []byte, d colligo.DType) (colligo.Tensor, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuses {
		return colligo.Tensor{}, errors.New("no memory")
	}
	there := append(make([]byte, 0, len(b)+1), b...)
	at := uintptr(unsafe.Pointer(unsafe.SliceData(there)))
	c.memory[at] = there
	return colligo.OnDevice(colligo.Device{Kind: stagerKind}, at, len(b)/d.Size(), d), nil
}

func (c *carrier) Unstage(_ context.Context, t colligo.Tensor, b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	copy(b, c.memory[t.Addr()])
	delete(c.memory, t.Addr())
	return nil
}

func init() {
	backend.Register(stagerKind, backend.Native, func(_ context.Context, h backend.Host, _ colligo.Device) (backend.Backend, error) {
		return &carrier{h: h, memory: map[uintptr][]byte{}}, nil
	})
}

// TestObjectsOnDevice moves objects over a device, in the order of collectives that ranks of PyTorch expect there.
func TestObjectsOnDevice(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.ObjectDevice = colligo.Device{Kind: stagerKind} }}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		ctx, v := t.Context(), []any{"a", int64(g.Rank())}
		own := func() *carrier {
			c, err := pg.BackendOf(t.Context(), g, colligo.Device{Kind: stagerKind})
			require.NoError(t, err)
			return c.(*carrier)
		}
		did := func(want ...string) {
			t.Helper()
			require.Equal(t, want, own().said)
			own().said = nil
		}
		all, err := pg.AllGatherObject(ctx, g, pg.Pickle, v)
		require.NoError(t, err)
		require.Equal(t, []any{"a", int64(2)}, all[2])
		did("all_gather int64", "all_gather uint8")
		all, err = pg.GatherObject(ctx, g, pg.Pickle, v, 1)
		require.NoError(t, err)
		require.Equal(t, g.Rank() == 1, len(all) == 3)
		did("all_gather int64", "gather uint8")
		list := [][]any{v, v}
		require.NoError(t, pg.BroadcastObjectList(ctx, g, pg.Pickle, list, 2))
		require.Equal(t, []any{"a", int64(2)}, list[1])
		did("broadcast int64", "broadcast uint8")
		list = nil
		if g.Rank() == 0 {
			list = [][]any{{"x"}, {"y"}, {"zzz"}}
		}
		v, err = pg.ScatterObjectList(ctx, g, pg.Pickle, list, 0)
		require.NoError(t, err)
		require.Equal(t, []any{[]string{"x", "y", "zzz"}[g.Rank()]}, v)
		did("broadcast int64", "scatter uint8", "scatter int64")
		switch g.Rank() {
		case 0:
			require.NoError(t, pg.SendObjectList(ctx, g, pg.Pickle, []string{"p", "q"}, 2, 4))
			did("send int64", "send uint8")
		case 2:
			got := make([]string, 2)
			_, err := pg.RecvObjectList(ctx, g, pg.Pickle, got, 0, 4)
			require.NoError(t, err)
			require.Equal(t, []string{"p", "q"}, got)
			did("recv int64", "recv uint8")
		}
		require.Empty(t, own().memory)
		require.NoError(t, g.Barrier(ctx))
		own().refuses = true
		_, err = pg.AllGatherObject(ctx, g, pg.Pickle, v)
		require.ErrorContains(t, err, "pg: all_gather_object: staging 8 B: no memory")
		require.Empty(t, own().memory)
	})
}

// TestObjectDeviceCannot names a device whose backend does not carry objects.
func TestObjectDeviceCannot(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.ObjectDevice = colligo.Device{Kind: kinds["grouping"]} }}
	pgtest.RunWith(t, 2, o, func(t *testing.T, g *pg.Group) {
		_, err := pg.AllGatherObject(t.Context(), g, pg.JSON, 1)
		require.ErrorContains(t, err, "cannot carry objects")
	})
}

// TestObjectsWithoutRoom has one rank's device take no more: the group ends, for the others have gone on.
func TestObjectsWithoutRoom(t *testing.T) {
	o := pgtest.Options{Config: func(_ int, c *pg.Config) { c.ObjectDevice = colligo.Device{Kind: stagerKind} }}
	pgtest.RunWith(t, 3, o, func(t *testing.T, g *pg.Group) {
		_, err := pg.AllGatherObject(t.Context(), g, pg.JSON, 1)
		require.NoError(t, err)
		require.NoError(t, g.Barrier(t.Context()))
		if g.Rank() == 1 {
			c, err := pg.BackendOf(t.Context(), g, colligo.Device{Kind: stagerKind})
			require.NoError(t, err)
			c.(*carrier).refuses = true
		}
		start := time.Now()
		_, err = pg.AllGatherObject(t.Context(), g, pg.JSON, 1)
		require.ErrorContains(t, err, "staging 8 B: no memory")
		require.Less(t, time.Since(start), time.Minute)
	})
}
