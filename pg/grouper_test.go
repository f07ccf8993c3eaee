package pg_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/pgtest"
	"github.com/colligo-go/colligo/plan"
)

// onHost is a backend whose device is the memory of the process. It carries out all-reduces with the group's own.
type onHost struct {
	h  backend.Host
	mu sync.Mutex
	// said is what was called, such as "begin 2 async", "all_reduce 1", "end".
	said []string
}

func (b *onHost) say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = append(b.said, fmt.Sprintf(format, args...))
}

func (b *onHost) take() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := b.said
	b.said = nil
	return said
}

func (b *onHost) Run(ctx context.Context, c *backend.Call) (backend.Pending, error) {
	b.say("%v %d", c.Coll, c.Count)
	if c.Count == 13 {
		return nil, errors.New("thirteen")
	}
	if c.Coll == plan.AllReduce {
		p := *(*unsafe.Pointer)(unsafe.Pointer(&[]uintptr{c.In.Addr()}[0])) // the test keeps the memory
		if err := b.h.Do(ctx, &backend.Call{Coll: c.Coll, Op: c.Op, Out: colligo.Raw(p, c.Count, c.DType)}); err != nil {
			return nil, err
		}
	}
	if c.Async {
		return over{}, nil
	}
	return nil, nil
}

func (b *onHost) Abort(error)  {}
func (b *onHost) Close() error { return nil }

type over struct{}

func (over) Wait(context.Context) error        { return nil }
func (over) Synchronize(context.Context) error { return nil }
func (over) Done() bool                        { return true }

// grouping is onHost that launches blocks as one.
type grouping struct{ onHost }

func (b *grouping) Begin(_ context.Context, n int, async bool) error {
	b.say("begin %d async %v", n, async)
	return nil
}

func (b *grouping) End(context.Context) (backend.Pending, error) {
	b.say("end")
	return over{}, nil
}

// kinds are devices that there are not, for backends of these tests.
var kinds = map[string]colligo.DeviceKind{"one_by_one": 101, "grouping": 102}

func init() {
	backend.Register(kinds["one_by_one"], backend.Native, func(_ context.Context, h backend.Host, _ colligo.Device) (backend.Backend, error) {
		return &onHost{h: h}, nil
	})
	backend.Register(kinds["grouping"], backend.Native, func(_ context.Context, h backend.Host, _ colligo.Device) (backend.Backend, error) {
		return &grouping{onHost{h: h}}, nil
	})
}

// said returns what a group's backend was called with since the last time.
func said(t *testing.T, g *pg.Group, gpu colligo.Device) []string {
	b, err := pg.BackendOf(t.Context(), g, gpu)
	require.NoError(t, err)
	return b.(interface{ take() []string }).take()
}

// TestBlockOnDevice launches blocks on backends that can launch them as one and those that cannot.
func TestBlockOnDevice(t *testing.T) {
	for _, name := range []string{"one_by_one", "grouping"} {
		t.Run("backend="+name, func(t *testing.T) {
			gpu := colligo.Device{Kind: kinds[name]}
			onGPU := func(x []float32) colligo.Tensor {
				return colligo.OnDevice(gpu, uintptr(unsafe.Pointer(unsafe.SliceData(x))), len(x), colligo.Float32)
			}
			pgtest.Run(t, 2, func(t *testing.T, g *pg.Group) {
				x, y := filled(g.Rank(), 5, 0), filled(g.Rank(), 7, 1)
				calls := []string{"all_reduce 5", "all_reduce 7", fmt.Sprintf("%v 5", []string{"send", "recv"}[g.Rank()])}
				expected := func(async bool) []string {
					if name == "grouping" {
						return append(append([]string{fmt.Sprintf("begin 3 async %v", async)}, calls...), "end")
					}
					return calls
				}
				fill := func(b *pg.Batch) error {
					b.AllReduce(onGPU(x), colligo.Sum)
					b.AllReduce(onGPU(y), colligo.Sum)
					if g.Rank() == 0 {
						b.Send(onGPU(x), 1, 0)
					} else {
						b.Recv(onGPU(x), 0, 0)
					}
					return nil
				}
				require.NoError(t, g.Coalesce(t.Context(), fill))
				equal(t, sum(2, 5, 0), x)
				equal(t, sum(2, 7, 1), y)
				require.Equal(t, expected(false), said(t, g, gpu))
				w := g.CoalesceAsync(t.Context(), fill)
				require.NoError(t, w.Wait(t.Context()))
				require.NoError(t, w.Synchronize(t.Context()))
				<-w.Done()
				require.Equal(t, expected(true), said(t, g, gpu))

				require.NoError(t, g.AllReduceCoalesced(t.Context(), []colligo.Tensor{onGPU(x), onGPU(y)}, colligo.Sum))
				require.Contains(t, said(t, g, gpu), "all_reduce 7")
				works, err := pg.BatchIsendIrecv(t.Context(), []pg.P2P{{Op: pg.Isend, Tensor: onGPU(x), Peer: 1 - g.Rank(), Group: g},
					{Op: pg.Irecv, Tensor: onGPU(y), Peer: 1 - g.Rank(), Group: g}})
				require.NoError(t, err)
				require.Len(t, works, 1)
				require.NoError(t, works[0].Wait(t.Context()))
				said(t, g, gpu)

				require.NoError(t, g.BarrierOn(t.Context(), gpu))
				require.Equal(t, []string{"barrier 0"}, said(t, g, gpu))
				require.NoError(t, g.BarrierOn(t.Context()))
				require.NoError(t, g.BarrierOn(t.Context(), colligo.Device{}))
				require.ErrorContains(t, g.BarrierOn(t.Context(), gpu, gpu), "a barrier on 2 devices, a rank has one")

				err = g.Coalesce(t.Context(), func(b *pg.Batch) error {
					b.AllReduce(onGPU(x), colligo.Sum)
					b.AllReduce(colligo.Of(y), colligo.Sum)
					return nil
				})
				require.ErrorContains(t, err, fmt.Sprintf("operation 2 of 2 in a block: tensors on %v and cpu in one block", gpu))
				require.NoError(t, g.Barrier(t.Context()))
				bad := make([]float32, 13)
				err = g.Coalesce(t.Context(), func(b *pg.Batch) error {
					b.AllReduce(onGPU(bad), colligo.Sum)
					return nil
				})
				require.ErrorContains(t, err, "all_reduce")
				require.Error(t, g.Err(), "what a backend cannot do ends the group")
				if all := said(t, g, gpu); name == "grouping" && len(all) > 0 { // the other rank may have failed first
					require.Equal(t, "end", all[len(all)-1], "also after a failure")
				}
			})
		})
	}
}
