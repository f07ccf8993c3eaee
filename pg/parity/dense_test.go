package parity

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// images are rank tensors of one shape and element type whose channels lie next to one another: dense, and not contiguous.
type images struct {
	*rank
	shape []int
	dtype colligo.DType
}

// count is the elements of one image.
func (m *images) count() int {
	n := 1
	for _, d := range m.shape {
		n *= d
	}
	return n
}

// value is element k of image i of a rank, in the order of memory. It is so small that sums are exact in every order.
func value(rank, i, k int) float64 { return float64((k+3*rank+2*i)%5 + 1) }

// image returns a tensor of the values that f gives to places in memory.
func (m *images) image(f func(k int) float64) colligo.Tensor {
	v := make([]float64, m.count())
	for k := range v {
		v[k] = f(k)
	}
	return typed(m.rank, m.dtype, v).Strided(0, m.shape, channelsLast(m.shape))
}

// own returns the rank's images, one for each rank; blank returns as many of zeros.
func (m *images) own() (all []colligo.Tensor) {
	for i := range m.Size() {
		all = append(all, m.image(func(k int) float64 { return value(m.Rank(), i, k) }))
	}
	return all
}

func (m *images) blank() (all []colligo.Tensor) {
	for range m.Size() {
		all = append(all, m.image(func(int) float64 { return 0 }))
	}
	return all
}

// holds compares an image with the values that f gives to places in memory.
func (m *images) holds(what string, x colligo.Tensor, f func(k int) float64) {
	v := make([]float64, m.count())
	for k := range v {
		v[k] = f(k)
	}
	require.Equal(m.t, typed(&rank{}, m.dtype, v).CPUBytes(), m.read(x), "%s of %v", what, m.dtype)
}

// TestDense gives images whose channels lie next to one another to every kind of collective, and to messages. Their ways are the CPU,
// kernels between devices, host memory for devices that do not reach one another, and NCCL.
func TestDense(t *testing.T) {
	for name, way := range ways {
		o := options{onlyDevices: name == "staged", noNCCL: name == "staged"} // a way of devices, which NCCL goes by itself
		for _, shape := range [][]int{{2, 3, 4, 5}, {2, 25, 10, 20}} {
			t.Run(fmt.Sprintf("%s/%v", name, shape), func(t *testing.T) {
				eachWith(t, 3, o, func(r *rank) {
					r.ctx = way(r)
					for _, d := range []colligo.DType{colligo.Float32, colligo.Float16} {
						m := &images{r, shape, d}
						m.reduced()
						m.copied()
						m.sent()
					}
					(&images{r, shape, colligo.Float32}).refused()
				})
			})
		}
	}
}

// reduced takes the collectives that add.
func (m *images) reduced() {
	last := m.Size() - 1
	sum := func(i int) func(k int) float64 {
		return func(k int) (s float64) {
			for rank := range m.Size() {
				s += value(rank, i, k)
			}
			return s
		}
	}
	x := m.own()
	require.NoError(m.t, m.AllReduce(m.ctx, x[0], colligo.Sum))
	m.holds("all_reduce", x[0], sum(0))
	require.NoError(m.t, m.Reduce(m.ctx, x[1], last, colligo.Sum))
	if m.Rank() == last {
		m.holds("reduce", x[1], sum(1))
	}
	out := m.blank()[0]
	require.NoError(m.t, m.ReduceScatter(m.ctx, out, m.own(), colligo.Sum))
	m.holds("reduce_scatter", out, sum(m.Rank()))
}

// copied takes the collectives that move.
func (m *images) copied() {
	last, me := m.Size()-1, m.Rank()
	of := func(rank, i int) func(k int) float64 { return func(k int) float64 { return value(rank, i, k) } }
	x := m.own()[0]
	require.NoError(m.t, m.Broadcast(m.ctx, x, last))
	m.holds("broadcast", x, of(last, 0))
	outs := m.blank()
	require.NoError(m.t, m.AllGather(m.ctx, outs, m.own()[1]))
	for rank, x := range outs {
		m.holds("all_gather", x, of(rank, 1))
	}
	outs = m.blank()
	require.NoError(m.t, m.AllToAll(m.ctx, outs, m.own()))
	for rank, x := range outs {
		m.holds("all_to_all", x, of(rank, me))
	}
	var all []colligo.Tensor
	out := m.blank()[0]
	if me == last {
		all = m.own()
	}
	require.NoError(m.t, m.Scatter(m.ctx, out, all, last))
	m.holds("scatter", out, of(last, me))
	if me == last {
		all = m.blank()
	}
	require.NoError(m.t, m.Gather(m.ctx, all, m.own()[0], last))
	for rank, x := range all {
		m.holds("gather", x, of(rank, 0))
	}
}

// sent takes messages: alone along a chain of the ranks, and in a block around them.
func (m *images) sent() {
	me, size, x := m.Rank(), m.Size(), m.own()[0]
	if me > 0 {
		require.NoError(m.t, m.Recv(m.ctx, x, me-1, 0))
	}
	if me < size-1 {
		require.NoError(m.t, m.Send(m.ctx, x, me+1, 0))
	}
	m.holds("a chain of messages", x, func(k int) float64 { return value(0, 0, k) })
	before, out := (me+size-1)%size, m.blank()[0]
	require.NoError(m.t, m.Coalesce(m.ctx, func(b *pg.Batch) error {
		b.Send(m.own()[1], (me+1)%size, 0)
		b.Recv(out, before, 0)
		return nil
	}))
	m.holds("a ring of messages", out, func(k int) float64 { return value(before, 1, k) })
}

// refused has what is not dense, and images that lie in two ways. The CPU takes both, by a copy.
func (m *images) refused() {
	if m.gpu == nil {
		return
	}
	x := full(m.rank, m.count(), float32(1))
	err := m.AllReduce(m.ctx, x.Strided(0, []int{m.count() / 2}, []int{2}), colligo.Sum)
	require.ErrorContains(m.t, err, "is neither contiguous nor dense, as tensors on a device must be")
	outs := m.blank()
	outs[1] = x.Strided(0, m.shape, rowMajor(m.shape))
	require.ErrorContains(m.t, m.AllGather(m.ctx, outs, m.own()[0]), "on a device all tensors of a call have the same strides")
	require.NoError(m.t, m.AllReduce(m.ctx, x, colligo.Sum), "a call that was refused has no place in the order")
}
