package parity

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/ddp"
)

// deviceMemory is where a rank's gradients are when they are on a device.
type deviceMemory struct{ *rank }

func (m deviceMemory) Alloc(d colligo.Device, t colligo.DType, count int) (colligo.Tensor, error) {
	if d != m.gpu.Place() {
		return colligo.Tensor{}, fmt.Errorf("memory on %v for a rank on %v", d, m.gpu.Place())
	}
	return m.onDevice(colligo.Bytes(make([]byte, count*t.Size()), t)), nil
}

// Copy copies tensors that are dense with the same strides, as a gradient and its place in a bucket are.
func (m deviceMemory) Copy(_ context.Context, dst, src colligo.Tensor) error {
	if dst.DType() != src.DType() || dst.Len() != src.Len() || !dst.Contiguous() && !slices.Equal(dst.Strides(), src.Strides()) {
		return fmt.Errorf("copy of %v with strides %v to %v with strides %v", src, src.Strides(), dst, dst.Strides())
	}
	th, err := m.gpu.Enter()
	if err != nil {
		return err
	}
	defer th.Leave()
	return th.Copy(cuda.Pointer(dst.Addr()), cuda.Pointer(src.Addr()), src.Size(), m.Stream)
}

// Read implements ddp.Transferer.
func (m deviceMemory) Read(_ context.Context, b []byte, src colligo.Tensor) error {
	m.download(b, src)
	return nil
}

// Write implements ddp.Transferer.
func (m deviceMemory) Write(_ context.Context, dst colligo.Tensor, b []byte) error {
	m.upload(dst, b)
	return nil
}

// trained is a model of a rank: parameters without a forward pass, and their reducer.
type trained struct {
	*rank
	params []ddp.Parameter
	*ddp.Reducer
}

// train makes parameters of float32 and their reducer. Buckets have 40 bytes where the options do not say: the third of the layers has
// one of its own.
func (r *rank) train(o ddp.Options, shapes ...[]int) *trained {
	m := &trained{rank: r}
	for i, shape := range shapes {
		n := 1
		for _, d := range shape {
			n *= d
		}
		g := full(r, n, float32(0)).Strided(0, shape, rowMajor(shape))
		m.params = append(m.params, ddp.Parameter{Name: fmt.Sprintf("layer%d.weight", i), Grad: g})
	}
	if r.gpu != nil && o.Memory == nil {
		o.Memory = deviceMemory{r}
	}
	if o.FirstBucketBytes == 0 {
		o.FirstBucketBytes, o.BucketBytes = 40, 40
	}
	var err error
	m.Reducer, err = ddp.New(r.ctx, r.Group, m.params, o)
	require.NoError(r.t, err)
	return m
}

func rowMajor(shape []int) []int {
	strides, n := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = n
		n *= shape[i]
	}
	return strides
}

// compute adds to gradient i what a backward pass would.
func (m *trained) compute(i int, value float32) {
	g := m.Grad(i)
	v := values[float32](m.rank, g)
	for j := range v {
		v[j] += value
	}
	m.set(g, v)
}

// set writes values to a tensor.
func (r *rank) set(to colligo.Tensor, v []float32) {
	if r.gpu == nil {
		copy(to.CPUBytes(), colligo.Of(v).CPUBytes())
		return
	}
	r.upload(to, bytesOf(v))
}

// backward computes all gradients, adding rank + parameter + 1 to each, and reduces them.
func (m *trained) backward() {
	for i := len(m.params) - 1; i >= 0; i-- {
		m.compute(i, float32(m.Rank()+i+1))
		require.NoError(m.t, m.Ready(m.ctx, i))
	}
	require.NoError(m.t, m.Finish(m.ctx))
}

// holds compares all gradients with a value for each.
func (m *trained) holds(want func(i int) float32) {
	for i := range m.params {
		require.Equal(m.t, repeat(m.params[i].Grad.Len(), want(i)), values[float32](m.rank, m.Grad(i)), m.params[i].Name)
	}
}

// zero clears all gradients, as zero_grad of a PyTorch optimizer does.
func (m *trained) zero() {
	for i := range m.params {
		m.set(m.Grad(i), make([]float32, m.params[i].Grad.Len()))
	}
}

var layers = [][]int{{2, 5}, {5}, {5, 4}, {4}}

// mean is what backward leaves on two ranks.
func mean(i int) float32 { return float32(i) + 1.5 }

// views runs a test with gradients of their own and as views of the buckets.
func views(t *testing.T, f func(t *testing.T, view bool)) {
	for _, view := range []bool{false, true} {
		t.Run(fmt.Sprintf("view=%v", view), func(t *testing.T) { f(t, view) })
	}
}

func TestNCCLBackendSingleDeviceModuleDeviceIDsNone(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		each(t, 2, func(r *rank) {
			m := r.train(ddp.Options{BucketView: view}, layers...)
			for range 3 {
				m.zero()
				m.backward()
				m.holds(mean)
			}
		})
	})
}

// TestDDPMultiDeviceModuleConfig refuses a model that is partly on a GPU.
func TestDDPMultiDeviceModuleConfig(t *testing.T) {
	eachWith(t, 2, options{onlyDevices: true}, func(r *rank) {
		_, err := ddp.New(r.ctx, r.Group, []ddp.Parameter{{Name: "fc0", Grad: full(r, 4, float32(0))},
			{Name: "fc1", Grad: colligo.Of([]float32{0})}}, ddp.Options{Memory: deviceMemory{r}})
		require.ErrorContains(r.t, err, "all must be on one kind of device")
		require.ErrorContains(r.t, err, "fc1")
	})
}

// TestDDPWithLazyParameters refuses a parameter whose shape is not known.
func TestDDPWithLazyParameters(t *testing.T) {
	each(t, 2, func(r *rank) {
		_, err := ddp.New(r.ctx, r.Group, []ddp.Parameter{{Name: "lazy.weight"}}, ddp.Options{})
		require.ErrorContains(r.t, err, "lazy.weight has no gradient tensor")
	})
}

// halfBackward is a backward pass of half of the model, from its own loss.
func (m *trained) halfBackward(params ...int) {
	for _, i := range params {
		m.compute(i, float32(m.Rank()+i+1))
		require.NoError(m.t, m.Ready(m.ctx, i))
	}
}

func multipleBackward(t *testing.T, view bool) {
	each(t, 2, func(r *rank) {
		m := r.train(ddp.Options{BucketView: view}, layers...)
		m.halfBackward(1, 0)
		m.halfBackward(3, 2)
		require.NoError(r.t, m.Finish(r.ctx))
		m.holds(mean)
	})
}

func TestMultipleOutputsMultipleBackward(t *testing.T)           { multipleBackward(t, false) }
func TestMultipleOutputsMultipleBackwardGradIsView(t *testing.T) { multipleBackward(t, true) }

// TestNoGrad has no backward pass: nothing is reduced, and nothing is owed.
func TestNoGrad(t *testing.T) {
	each(t, 2, func(r *rank) {
		m := r.train(ddp.Options{}, layers...)
		m.holds(func(int) float32 { return 0 })
		require.Equal(r.t, []int{0, 1, 2, 3}, m.Missing())
		require.NoError(r.t, r.Barrier(r.ctx))
		m.backward()
		m.holds(mean)
	})
}

// accumulate adds gradients of a step that is not reduced to those of one that is.
func accumulate(t *testing.T, view bool) {
	each(t, 2, func(r *rank) {
		m := r.train(ddp.Options{BucketView: view}, layers...)
		for range 2 {
			m.zero()
			for i := range m.params {
				m.compute(i, float32(10*(r.Rank()+1)))
			}
			m.backward()
			m.holds(func(i int) float32 { return mean(i) + 15 })
		}
	})
}

func TestAccumulateGradientsModule(t *testing.T)               { accumulate(t, false) }
func TestAccumulateGradientsModuleWithGradIsView(t *testing.T) { accumulate(t, true) }

// TestFailureRecovery trains on in a new group with the same parameters after the first group was closed.
func TestFailureRecovery(t *testing.T) {
	each(t, 2, func(r *rank) {
		g, err := r.NewGroup(r.ctx, []int{0, 1})
		require.NoError(r.t, err)
		first := r.in(g)
		m := first.train(ddp.Options{}, layers...)
		m.backward()
		first.leave()
		for i := range m.params {
			require.NoError(r.t, m.Ready(r.ctx, i), "a gradient is only taken; its reduction fails")
		}
		require.ErrorIs(r.t, m.Finish(r.ctx), colligo.ErrClosed)

		again, err := ddp.New(r.ctx, r.Group, m.params, ddp.Options{Memory: m.memory()})
		require.NoError(r.t, err)
		n := &trained{r, m.params, again}
		n.zero()
		n.backward()
		n.holds(mean)
	})
}

// memory is what a reducer of the rank needs.
func (r *rank) memory() ddp.Memory {
	if r.gpu == nil {
		return nil
	}
	return deviceMemory{r}
}

func TestPassDefaultPG(t *testing.T) {
	each(t, 2, func(r *rank) {
		m := r.train(ddp.Options{}, layers...)
		m.backward()
		r.leave()
		require.ErrorIs(r.t, r.Err(), colligo.ErrClosed)
	})
}

// channelsLast returns the strides of an image tensor whose channels lie next to one another.
func channelsLast(shape []int) []int {
	return []int{shape[1] * shape[2] * shape[3], 1, shape[1] * shape[3], shape[1]}
}

// TestParamLayoutMismatchError has ranks with other strides than rank 0's named.
func TestParamLayoutMismatchError(t *testing.T) {
	each(t, 2, func(r *rank) {
		shape := []int{2, 3, 4, 5}
		g := full(r, 120, float32(0)).Strided(0, shape, rowMajor(shape))
		if r.Rank() != 0 {
			g = g.Strided(0, shape, channelsLast(shape))
		}
		_, err := ddp.New(r.ctx, r.Group, []ddp.Parameter{{Name: "conv", Grad: g}}, ddp.Options{Memory: r.memory()})
		require.ErrorContains(r.t, err, "on rank 1 type, shape or strides of conv are not those of rank 0")
	})
}

func TestDDPWeightSharing(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		each(t, 2, func(r *rank) {
			m := r.train(ddp.Options{BucketView: view}, []int{64, 64})
			for range 3 {
				m.zero()
				m.compute(0, float32(r.Rank()+1)) // two uses of the one parameter, each with its gradient
				m.compute(0, float32(r.Rank()+1))
				require.NoError(r.t, m.Ready(r.ctx, 0))
				require.NoError(r.t, m.Finish(r.ctx))
				m.holds(func(int) float32 { return 3 })
			}
		})
	})
}

// TestDDPComplexParams reduces complex gradients.
func TestDDPComplexParams(t *testing.T) {
	each(t, 2, func(r *rank) {
		g := tensor(r, complex(float32(r.Rank()), 2), complex(4, float32(2*r.Rank())))
		m, err := ddp.New(r.ctx, r.Group, []ddp.Parameter{{Name: "fft", Grad: g}}, ddp.Options{Memory: r.memory()})
		require.NoError(r.t, err)
		require.NoError(r.t, m.Ready(r.ctx, 0))
		require.NoError(r.t, m.Finish(r.ctx))
		require.Equal(r.t, []complex64{0.5 + 2i, 4 + 1i}, values[complex64](r, g))
	})
}

// TestDDPCommHookFuturePassingGPUNCCL has a hook's future bring the gradients, without any communication.
func TestDDPCommHookFuturePassingGPUNCCL(t *testing.T) {
	views(t, func(t *testing.T, view bool) {
		each(t, 2, func(r *rank) {
			hook := func(_ context.Context, _ *pg.Group, b *ddp.Bucket) (*ddp.Future, error) {
				twos := full(r, b.Buffer.Len(), float32(2))
				return ddp.Ready(full(r, b.Buffer.Len(), float32(1))).Then(
					func(context.Context, colligo.Tensor) (colligo.Tensor, error) { return twos, nil }), nil
			}
			m := r.train(ddp.Options{BucketView: view, Hook: hook}, layers...)
			m.backward()
			m.holds(func(int) float32 { return 2 })
		})
	})
}
