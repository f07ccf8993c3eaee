package parity

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/ddp"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/sparse"
)

// fill makes all elements of gradient i a value.
func (m *trained) fill(i int, value float32) { m.set(m.Grad(i), repeat(m.params[i].Grad.Len(), value)) }

// TestDDPStaticGraph uses one parameter twice in every step, another on rank 0 only, and one nowhere.
func TestDDPStaticGraph(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		each(t, 2, func(r *rank) {
			o := ddp.Options{FirstBucketBytes: 1, BucketBytes: 1, StaticGraph: true, BucketView: view}
			m := r.train(o, []int{4}, []int{4}, []int{4}, []int{4})
			ready := func(i int, v float32) {
				m.fill(i, v)
				require.NoError(r.t, m.Ready(r.ctx, i))
			}
			for step := range 4 {
				for i := range 3 {
					m.fill(i, 0)
				}
				m.fill(3, -1)
				ready(0, float32(r.Rank()+1))
				if r.Rank() == 0 {
					ready(1, 8)
				}
				ready(2, float32(step))
				ready(0, float32(10*(r.Rank()+1))) // of both uses
				require.NoError(r.t, m.Finish(r.ctx))
				m.holds(func(i int) float32 { return []float32{15, 4, float32(step), -1}[i] }) // no rank uses the last
			}
		})
	})
}

// TestDDPGraphIsNotStatic names the parameter that is used more or less often than in the first step.
func TestDDPGraphIsNotStatic(t *testing.T) {
	each(t, 1, func(r *rank) {
		m := r.train(ddp.Options{StaticGraph: true}, []int{4}, []int{4})
		for _, i := range []int{0, 1, 1} {
			require.NoError(r.t, m.Ready(r.ctx, i))
		}
		require.NoError(r.t, m.Finish(r.ctx))
		require.NoError(r.t, m.Ready(r.ctx, 0))
		require.ErrorContains(r.t, m.Ready(r.ctx, 0), "layer0.weight was ready more often than in the first step, which had 1 uses")
		require.NoError(r.t, m.Ready(r.ctx, 1))
		require.Equal(r.t, []int{1}, m.Missing())
		require.ErrorContains(r.t, m.Finish(r.ctx), "without gradients of 1 of 2 parameters (layer1.weight)")
	})
}

// TestDDPJoin has ranks with 1, 2 and 4 steps, with unused parameters and buffers. The mean is that of all ranks, or of the ranks that
// compute.
func TestDDPJoin(t *testing.T) {
	for _, some := range []bool{false, true} {
		for _, find := range []bool{false, true} {
			for _, sync := range []bool{false, true} {
				t.Run(fmt.Sprintf("mean=%v/find=%v/buffers=%v", some, find, sync), func(t *testing.T) {
					each(t, 3, func(r *rank) { r.joins(some, find, sync) })
				})
			}
		}
	}
}

func (r *rank) joins(some, find, sync bool) {
	value, buffer := full(r, 4, float32(0)), full(r, 3, float32(r.Rank()))
	var params []ddp.Parameter
	for i, n := range []int{4, 5, 3} {
		params = append(params, ddp.Parameter{Name: fmt.Sprintf("layer%d", i), Grad: full(r, n, float32(0))})
	}
	params[0].Value = value
	red, err := ddp.New(r.ctx, r.Group, params, ddp.Options{FirstBucketBytes: 1, BucketBytes: 1, Join: true, JoinMean: some, FindUnused: find,
		Buffers: []colligo.Tensor{buffer}, Memory: r.memory()})
	require.NoError(r.t, err)
	m := &trained{r, params, red}
	steps := []int{1, 2, 4}
	for step := range steps[r.Rank()] {
		active, root := 0, -1
		for rank, n := range steps {
			if n > step {
				active++
				if root < 0 {
					root = rank
				}
			}
		}
		if sync {
			r.set(buffer, repeat(3, float32(100*step+r.Rank())))
			require.NoError(r.t, m.SyncBuffers(r.ctx))
			require.Equal(r.t, repeat(3, float32(100*step+root)), values[float32](r, buffer))
		}
		used := 3
		if find {
			used = 2 // the last is not used
		}
		for i := range used {
			m.fill(i, 6)
			require.NoError(r.t, m.Ready(r.ctx, i))
		}
		require.NoError(r.t, m.Finish(r.ctx))
		want := float32(6*active) / 3
		if some {
			want = 6
		}
		for i := range used {
			for _, v := range values[float32](r, m.Grad(i)) {
				require.InDelta(r.t, want, v, 1e-5, "step %d", step)
			}
		}
		r.set(value, repeat(4, float32(10*step+r.Rank())))
	}
	require.NoError(r.t, m.Join(r.ctx))
	require.Equal(r.t, repeat(4, float32(32)), values[float32](r, value), "what rank 2, the last to compute, has")
}

// TestDDPSyncBuffers sets buffers of two element types to those of rank 0 before each step, and in none that has begun.
func TestDDPSyncBuffers(t *testing.T) {
	each(t, 2, func(r *rank) {
		buffers := []colligo.Tensor{full(r, 3, float32(r.Rank()+1)), full(r, 5, int64(r.Rank()+10)), full(r, 2, float32(r.Rank()+20))}
		m := r.train(ddp.Options{Buffers: buffers}, layers...)
		for step := range 3 {
			require.NoError(r.t, m.SyncBuffers(r.ctx))
			require.Equal(r.t, repeat(3, float32(step+1)), values[float32](r, buffers[0]))
			require.Equal(r.t, repeat(5, int64(10)), values[int64](r, buffers[1]))
			require.Equal(r.t, repeat(2, float32(20)), values[float32](r, buffers[2]))
			m.zero()
			m.halfBackward(3)
			require.ErrorContains(r.t, m.SyncBuffers(r.ctx), "SyncBuffers in a step that has begun")
			m.halfBackward(2, 1, 0)
			require.NoError(r.t, m.Finish(r.ctx))
			m.holds(mean)
			r.set(buffers[0], repeat(3, float32(step+2+5*r.Rank()))) // as a step on the rank's own data does
		}
	})
}

// remembered is memory where a rank's gradients are that remembers what a reducer has taken of it, by its elements.
type remembered struct {
	deviceMemory
	taken map[int]colligo.Tensor
}

func (m *remembered) Alloc(d colligo.Device, t colligo.DType, count int) (x colligo.Tensor, err error) {
	if x = colligo.Bytes(make([]byte, count*t.Size()), t); m.gpu != nil {
		x, err = m.deviceMemory.Alloc(d, t, count)
	}
	m.taken[count] = x
	return x, err
}

func (m *remembered) Copy(ctx context.Context, dst, src colligo.Tensor) error {
	if m.gpu != nil {
		return m.deviceMemory.Copy(ctx, dst, src)
	}
	copy(dst.CPUBytes(), src.CPUBytes())
	return nil
}

// TestPowerSGDSends compares what PowerSGD sends: by the rate that is demanded, the factors of all matrices, or the small ones as they
// are. Where matrices of one shape go together, their factors lie side by side.
func TestPowerSGDSends(t *testing.T) {
	shapes := [][]int{{8, 4}, {40, 40}, {8, 4}} // 8 × 4 elements have two factors of 12 together
	for rate, sent := range map[float64][]int{0: {8 + 40 + 8, 4 + 40 + 4}, 2.6: {8 + 40 + 8, 4 + 40 + 4}, 2.7: {32 + 32 + 40, 40}} {
		t.Run(fmt.Sprintf("rate=%v", rate), func(t *testing.T) {
			each(t, 2, func(r *rank) {
				first := map[bool][]float32{}
				for _, together := range []bool{false, true} {
					grads, counts, factors := r.compressed(ddp.PowerSGDOptions{MinCompressionRate: rate, SameShapeTogether: together}, shapes, sent[0])
					require.Equal(r.t, sent, counts)
					exact := true
					for k := range 32 { // the small ones are first and last
						exact = exact && grads[k] == gradient(0, k) && grads[32+1600+k] == gradient(2, k)
					}
					require.Equal(r.t, rate == 2.7, exact, "what is sent as it is comes back as it was")
					first[together] = factors
				}
				if rate == 2.7 { // the matrix that is left comes after the others anyway
					require.Equal(r.t, first[false], first[true])
					return
				}
				apart := first[false] // the last parameter's come first
				want := append(append(append([]float32{}, apart[:8]...), apart[48:]...), apart[8:48]...)
				require.Equal(r.t, want, first[true])
				require.NotEqual(r.t, apart, first[true])
			})
		})
	}
}

// gradient is element k of a parameter's gradient, the same on all ranks.
func gradient(i, k int) float32 { return float32(k * k % (7 - i)) }

// compressed reduces gradients by PowerSGD once. It returns all of them, how many elements each all-reduce had, and the elements of the
// first.
func (r *rank) compressed(o ddp.PowerSGDOptions, shapes [][]int, first int) (grads []float32, counts []int, sent []float32) {
	memory := &remembered{deviceMemory{r}, map[int]colligo.Tensor{}}
	m := r.train(ddp.Options{FirstBucketBytes: 1 << 20, BucketBytes: 1 << 20, Hook: r.power(o), Memory: memory}, shapes...)
	for i := range m.params {
		v := make([]float32, m.params[i].Grad.Len())
		for k := range v {
			v[k] = gradient(i, k)
		}
		m.set(m.Grad(i), v)
	}
	require.NoError(r.t, r.WaitPending(r.t.Context()))
	before := len(r.entries())
	for i := range m.params {
		require.NoError(r.t, m.Ready(r.ctx, i))
	}
	require.NoError(r.t, m.Finish(r.ctx))
	for i := range m.params {
		grads = append(grads, values[float32](r, m.Grad(i))...)
	}
	for _, e := range r.entries()[before:] { // a broadcast of the order of the first step comes last
		if e.Name == "nccl:all_reduce" {
			counts = append(counts, elements(e))
		}
	}
	return grads, counts, values[float32](r, memory.taken[first])
}

// elements is how many elements a recorded call was given.
func elements(e flight.Entry) (all int) {
	for _, shape := range e.InSizes {
		n := 1
		for _, d := range shape {
			n *= int(d)
		}
		all += n
	}
	return all
}

// TestDDPSparseRowsUnknown reduces sparse gradients whose rows nobody has told. On a device they are refused, on all ranks, and the next
// step goes on where the rows are known. So is a gradient there that a rank does not have.
func TestDDPSparseRowsUnknown(t *testing.T) {
	const rows, width = 6, 2
	each(t, 2, func(r *rank) {
		p := ddp.Parameter{Name: "embedding.weight", Grad: full(r, width, float32(0)), SparseRows: rows}
		m, err := ddp.New(r.ctx, r.Group, []ddp.Parameter{p}, ddp.Options{FindUnused: true, Memory: r.memory()})
		require.NoError(r.t, err)
		step := func(own ...int64) error {
			if len(own) > 0 {
				v := full(r, len(own)*width, float32(r.Rank()+1)).Strided(0, []int{len(own), width}, []int{width, 1})
				require.NoError(r.t, m.ReadySparse(r.ctx, 0, sparse.Tensor{Rows: rows, Indices: own, Values: v}))
			}
			return m.Finish(r.ctx)
		}
		err = step([][]int64{{1, 3}, {3, 5}}[r.Rank()]...)
		if r.gpu == nil {
			require.NoError(r.t, err)
			require.Equal(r.t, []int64{1, 3, 5}, m.Sparse(0).Indices)
			require.Equal(r.t, []float32{0.5, 0.5, 1.5, 1.5, 1, 1}, values[float32](r, m.Sparse(0).Values))
			return
		}
		require.ErrorContains(r.t, err, "sparse gradient of embedding.weight: on a device its rows must be known: SetSparseRows")
		require.NoError(r.t, m.SetSparseRows(0, []int64{1, 3}))
		require.ErrorContains(r.t, step(), "it is missing, and has no memory for the rows of others")
		require.NoError(r.t, r.Err())
		require.NoError(r.t, step(1, 3))
		require.Equal(r.t, []int64{1, 3}, m.Sparse(0).Indices)
		require.Equal(r.t, repeat(4, float32(1.5)), values[float32](r, m.Sparse(0).Values))
	})
}
