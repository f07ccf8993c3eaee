package nccl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
	"github.com/colligo-go/colligo/pg"
)

// rank is one rank of a test, on a simulated device.
type rank struct {
	*pg.Group
	ctx    context.Context
	device *cuda.Device
	stream cuda.Stream
	memory []cuda.Pointer
	sim    *ncclsim.Sim
}

// simPatience is after how long without a move simulated devices find a deadlock. It is longer than a busy machine holds a rank up.
const simPatience = 12 * time.Second

// onRanks calls f for each rank of a group whose operations the simulated library carries out.
func onRanks(t *testing.T, size int, o nccl.Options, f func(r *rank) error) *ncclsim.Sim {
	t.Helper()
	devices := cudasim.New(cudasim.Config{Devices: size, Seed: 1, Patience: simPatience})
	cudasim.Limit(t, devices)
	withKernels(t, devices, o)
	return withLibrary(t, devices, size, pg.Config{Timeout: time.Minute}, func(int) context.Context { return t.Context() }, o, false, f)
}

// withLibrary calls f for each rank of a group on simulated devices, with the rank's context. It holds that the program is without races and
// gives everything back. Errors of ranks are the test's. Kernels that a failure stops access memory in no order, so their races are forgiven.
func withLibrary(t *testing.T, devices *cudasim.Sim, size int, c pg.Config, contextOf func(rank int) context.Context, o nccl.Options,
	stops bool, f func(r *rank) error) *ncclsim.Sim {
	t.Helper()
	c.Backends = "cpu:host,cuda:nccl"
	library := ncclsim.New(devices.Driver(), ncclsim.Version)
	groups, err := pg.InProcess(t.Context(), size, c)
	require.NoError(t, err)
	errs := make(chan error, size)
	for i, g := range groups {
		go func() { errs <- life(contextOf(i), g, devices.Driver(), library, i, o, f) }()
	}
	for range groups {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	require.NoError(t, library.Close())
	devices.Drain()
	if !stops {
		require.Empty(t, devices.Races())
	}
	devices.Close()
	return library
}

// life is what one rank does.
func life(ctx context.Context, g *pg.Group, d *cuda.Driver, s *ncclsim.Sim, i int, o nccl.Options, f func(r *rank) error) (err error) {
	defer func() { err = errors.Join(err, g.Close()) }()
	o.Driver = d
	if o.Library, err = s.Library(); err != nil {
		return err
	}
	r := &rank{Group: g, sim: s}
	if r.device, err = d.Device(i); err != nil {
		return err
	}
	err = r.on(func(t cuda.Thread) (err error) { r.stream, err = t.NewStream(0); return err })
	if err != nil {
		return err
	}
	r.ctx = nccl.With(streamorder.OnStream(ctx, r.stream), o)
	if err := f(r); err != nil {
		g.Abort(err)
		return fmt.Errorf("rank %d: %w", i, err)
	}
	return r.on(func(t cuda.Thread) error {
		err := t.Synchronize(r.stream)
		for _, p := range r.memory {
			err = errors.Join(err, t.Free(p))
		}
		return errors.Join(err, g.Close(), t.DestroyStream(r.stream), r.device.Close())
	})
}

func (r *rank) on(f func(t cuda.Thread) error) error {
	t, err := r.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	return f(t)
}

// moved returns a copy of a tensor of the CPU on the rank's device.
func (r *rank) moved(from colligo.Tensor) (to colligo.Tensor, err error) {
	err = r.on(func(t cuda.Thread) error {
		at, err := t.Alloc(max(from.Size(), 16))
		if err != nil {
			return err
		}
		r.memory = append(r.memory, at)
		to = colligo.OnDevice(r.device.Place(), uintptr(at), from.Len(), from.DType())
		if from.Size() == 0 {
			return nil
		}
		page, err := t.AllocHost(from.Size())
		if err != nil {
			return err
		}
		copy(page.Bytes, from.CPUBytes())
		return errors.Join(t.Copy(at, page.Device, from.Size(), r.stream), t.Synchronize(r.stream), t.FreeHost(page))
	})
	return to, err
}

// bytes returns the elements of a tensor on the device, after all that the stream has to do.
func (r *rank) bytes(from colligo.Tensor) (b []byte, err error) {
	if from.Size() == 0 {
		return nil, nil
	}
	err = r.on(func(t cuda.Thread) error {
		page, err := t.AllocHost(from.Size())
		if err != nil {
			return err
		}
		err = errors.Join(t.Copy(page.Device, cuda.Pointer(from.Addr()), from.Size(), r.stream), t.Synchronize(r.stream))
		b = slices.Clone(page.Bytes[:from.Size()])
		return errors.Join(err, t.FreeHost(page))
	})
	return b, err
}

// same carries a call out on tensors of the CPU and on copies of them on the device, and compares all bytes afterwards.
func (r *rank) same(what string, ts []colligo.Tensor, call func(ctx context.Context, ts []colligo.Tensor) error) error {
	on := make([]colligo.Tensor, len(ts))
	for i := range ts {
		var err error
		if on[i], err = r.moved(ts[i]); err != nil {
			return err
		}
	}
	if err := errors.Join(call(r.ctx, on), call(r.ctx, ts)); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for i := range ts {
		got, err := r.bytes(on[i])
		if err != nil {
			return err
		}
		if want := ts[i].CPUBytes(); !bytes.Equal(got, want) {
			return fmt.Errorf("%s: tensor %d is %v on the device, %v on the CPU", what, i, got, want)
		}
	}
	return nil
}

// numbered returns n elements of small whole numbers, which differ by rank and place, so that no order of sums shows.
func (r *rank) numbered(d colligo.DType, n int) colligo.Tensor {
	const period = 5
	b := make([]byte, n*d.Size())
	t := colligo.Bytes(b, d, n)
	for i := range min(n, period) {
		v := (i+3*r.Rank())%period + 1
		switch e := b[i*d.Size():]; d {
		case colligo.Float32:
			copy(e, colligo.Of([]float32{float32(v)}).CPUBytes())
		case colligo.Complex64:
			copy(e, colligo.Of([]complex64{complex(float32(v), float32(-v))}).CPUBytes())
		case colligo.BFloat16:
			copy(e, colligo.Of([]float32{float32(v)}).CPUBytes()[2:])
		case colligo.Int64:
			copy(e, colligo.Of([]int64{int64(v)}).CPUBytes())
		case colligo.Bool:
			e[0] = byte(v % 2)
		default:
			e[0] = byte(v)
		}
	}
	for done := period * d.Size(); done < len(b); done *= 2 {
		copy(b[done:], b[:done])
	}
	return t
}

func parts(t colligo.Tensor, lengths []int) []colligo.Tensor {
	all, at := make([]colligo.Tensor, len(lengths)), 0
	for i, n := range lengths {
		all[i] = t.Slice(at, at+n)
		at += n
	}
	return all
}

// TestCollectives compares every collective with the CPU's, on one to four ranks.
func TestCollectives(t *testing.T) {
	for size := 1; size <= 4; size++ {
		for _, d := range []colligo.DType{colligo.Float32, colligo.BFloat16, colligo.Int64, colligo.Uint8, colligo.Complex64} {
			t.Run(fmt.Sprintf("ranks=%d/%v", size, d), func(t *testing.T) {
				onRanks(t, size, nccl.Options{}, func(r *rank) error {
					return errors.Join(r.reductions(d), r.moves(d), r.messages(d))
				})
			})
		}
	}
}

// reductions compares the collectives that reduce.
func (r *rank) reductions(d colligo.DType) error {
	const n = 37
	size, me := r.Size(), r.Rank()
	ops := []colligo.ReduceOp{colligo.Sum}
	if d != colligo.Complex64 {
		ops = append(ops, colligo.Max, colligo.Min)
	}
	if d == colligo.Float32 {
		ops = append(ops, colligo.PremulSum(0.5))
	}
	uneven := make([]int, size)
	total := 0
	for q := range uneven {
		uneven[q] = 5 + 2*q
		total += uneven[q]
	}
	var errs []error
	for _, by := range ops {
		errs = append(errs,
			r.same(fmt.Sprintf("all_reduce %v", by), []colligo.Tensor{r.numbered(d, n)}, func(ctx context.Context, ts []colligo.Tensor) error {
				return r.AllReduce(ctx, ts[0], by)
			}),
			r.same(fmt.Sprintf("reduce_scatter %v", by), []colligo.Tensor{r.numbered(d, n*size), r.numbered(d, n)},
				func(ctx context.Context, ts []colligo.Tensor) error {
					return r.ReduceScatterTensor(ctx, ts[1], ts[0], by)
				}),
			r.same(fmt.Sprintf("uneven reduce_scatter %v", by), []colligo.Tensor{r.numbered(d, total), r.numbered(d, uneven[me])},
				func(ctx context.Context, ts []colligo.Tensor) error {
					return r.ReduceScatter(ctx, ts[1], parts(ts[0], uneven), by)
				}))
	}
	return errors.Join(errs...)
}

// moves compares the collectives that only move.
func (r *rank) moves(d colligo.DType) error {
	const n = 11
	size, me := r.Size(), r.Rank()
	root := size - 1
	uneven, outs, total := make([]int, size), make([]int, size), 0
	for q := range uneven {
		uneven[q] = 3 + q
		total += uneven[q]
		outs[q] = 3 + me
	}
	every := make([]int, size)
	for q := range every {
		every[q] = n
	}
	rooted := func(ts []colligo.Tensor) []colligo.Tensor {
		if me != root {
			return nil
		}
		return ts
	}
	return errors.Join(
		r.same("broadcast", []colligo.Tensor{r.numbered(d, n)}, func(ctx context.Context, ts []colligo.Tensor) error {
			return r.Broadcast(ctx, ts[0], root)
		}),
		r.same("all_gather", []colligo.Tensor{r.numbered(d, n*size), r.numbered(d, n)}, func(ctx context.Context, ts []colligo.Tensor) error {
			return r.AllGatherIntoTensor(ctx, ts[0], ts[1])
		}),
		r.same("uneven all_gather", []colligo.Tensor{r.numbered(d, total), r.numbered(d, uneven[me])},
			func(ctx context.Context, ts []colligo.Tensor) error {
				return r.AllGather(ctx, parts(ts[0], uneven), ts[1])
			}),
		r.same("all_to_all", []colligo.Tensor{r.numbered(d, uneven[me]*size), r.numbered(d, total)},
			func(ctx context.Context, ts []colligo.Tensor) error {
				return r.AllToAllSingle(ctx, ts[0], ts[1], outs, uneven)
			}),
		r.same("gather", []colligo.Tensor{r.numbered(d, n*size), r.numbered(d, n)}, func(ctx context.Context, ts []colligo.Tensor) error {
			return r.Gather(ctx, rooted(parts(ts[0], every)), ts[1], root)
		}),
		r.same("scatter", []colligo.Tensor{r.numbered(d, n*size), r.numbered(d, n)}, func(ctx context.Context, ts []colligo.Tensor) error {
			return r.Scatter(ctx, ts[1], rooted(parts(ts[0], every)), root)
		}))
}

// messages compares sends and receives, alone and in a block.
func (r *rank) messages(d colligo.DType) error {
	size, me := r.Size(), r.Rank()
	if size == 1 {
		return nil
	}
	next, before := (me+1)%size, (me+size-1)%size
	alone := r.same("send and recv", []colligo.Tensor{r.numbered(d, 9), r.numbered(d, 9)}, func(ctx context.Context, ts []colligo.Tensor) error {
		if me%2 == 0 && me+1 < size {
			return r.Send(ctx, ts[0], me+1, 7)
		} else if me%2 == 1 {
			return r.Recv(ctx, ts[1], me-1, 7)
		}
		return nil
	})
	block := r.same("a block", []colligo.Tensor{r.numbered(d, 9), r.numbered(d, 9)}, func(ctx context.Context, ts []colligo.Tensor) error {
		return r.Coalesce(ctx, func(b *pg.Batch) error {
			b.Send(ts[0], next, 0)
			b.Recv(ts[1], before, 0)
			return nil
		})
	})
	return errors.Join(alone, block)
}

// TestNonBlocking makes the communicators, and all operations, with calls that return before they are through.
func TestNonBlocking(t *testing.T) {
	s := onRanks(t, 2, nccl.Options{Config: nccl.Config{NonBlocking: true}}, func(r *rank) error {
		return errors.Join(r.reductions(colligo.Int64), r.moves(colligo.Float32), r.messages(colligo.Uint8))
	})
	require.Contains(t, s.Calls(), "ncclCommInitRankConfig")
	require.Contains(t, s.Calls(), "ncclCommDestroy")
}

// TestAsync waits for works instead of calls, and asks how far the device is.
func TestAsync(t *testing.T) {
	onRanks(t, 2, nccl.Options{}, func(r *rank) error {
		x, err := r.moved(r.numbered(colligo.Int64, 5))
		if err != nil {
			return err
		}
		for range 3 {
			if err := r.AllReduceAsync(r.ctx, x, colligo.Max).Synchronize(r.ctx); err != nil {
				return err
			}
		}
		return r.BarrierOn(r.ctx, r.device.Place())
	})
}

// TestNoReduction refuses what the library does not have, as an error of the call alone.
func TestNoReduction(t *testing.T) {
	devices := cudasim.New(cudasim.Config{Devices: 1})
	cudasim.Limit(t, devices)
	defer devices.Close()
	l, err := ncclsim.New(devices.Driver(), ncclsim.Version).Library()
	require.NoError(t, err)
	_, _, _, err = l.Reduced(colligo.Float32, colligo.KindBAnd)
	require.ErrorContains(t, err, "no reduction for band")
	_, _, _, err = l.Reduced(colligo.Complex64, colligo.KindMax)
	require.ErrorContains(t, err, "only sums of complex numbers")
	_, _, op, err := l.Reduced(colligo.Bool, colligo.KindSum)
	require.NoError(t, err)
	require.Equal(t, nccl.Max, op)
}

// TestCodes compares the number of each element type with ncclDataType_t of nccl.h, and that of each reduction with ncclRedOp_t.
func TestCodes(t *testing.T) {
	devices := cudasim.New(cudasim.Config{Devices: 1})
	cudasim.Limit(t, devices)
	defer devices.Close()
	l, err := ncclsim.New(devices.Driver(), ncclsim.Version).Library()
	require.NoError(t, err)
	types := map[colligo.DType]int{colligo.Int8: 0, colligo.Uint8: 1, colligo.Int32: 2, colligo.Uint32: 3, colligo.Int64: 4,
		colligo.Uint64: 5, colligo.Float16: 6, colligo.Float32: 7, colligo.Float64: 8, colligo.BFloat16: 9, colligo.Float8E4M3FN: 10,
		colligo.Float8E5M2: 11, colligo.Bool: 1, colligo.Complex64: 7, colligo.Complex128: 8}
	ops := map[colligo.OpKind]int{colligo.KindSum: 0, colligo.KindProd: 1, colligo.KindMax: 2, colligo.KindMin: 3, colligo.KindAvg: 4}
	for _, d := range colligo.DTypes() {
		code, has := types[d]
		for k := colligo.KindSum; k <= colligo.KindPremulSum; k++ {
			if _, _, err := k.Check(d); err != nil {
				continue
			}
			op, reduces := ops[k]
			per := 1
			switch {
			case d.Complex():
				per, reduces = 2, k == colligo.KindSum || k == colligo.KindAvg
			case d == colligo.Bool && k == colligo.KindSum:
				op = ops[colligo.KindMax]
			case d == colligo.Bool && k == colligo.KindProd:
				op = ops[colligo.KindMin]
			}
			as, n, by, err := l.Reduced(d, k)
			if !has || !reduces {
				require.Error(t, err, "%v of %v", k, d)
				continue
			}
			require.NoError(t, err, "%v of %v", k, d)
			require.Equal(t, []int{code, per, op}, []int{int(as), n, int(by)}, "%v of %v", k, d)
		}
		as, per := l.Moved(d)
		if !has || d.Complex() {
			code = types[colligo.Uint8]
			require.Equal(t, d.Size(), per, d)
		} else {
			require.Equal(t, 1, per, d)
		}
		require.EqualValues(t, code, as, d)
	}
}

// TestErrors has a call fail, of this machine or of a peer, and the library meet an error in the background. A lost peer is named.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		hurt func(s *ncclsim.Sim)
		lost bool
	}{
		"call":       {hurt: func(s *ncclsim.Sim) { s.Fail("ncclAllReduce", nccl.SystemError) }},
		"lost":       {hurt: func(s *ncclsim.Sim) { s.Fail("ncclAllReduce", nccl.RemoteError) }, lost: true},
		"background": {hurt: func(s *ncclsim.Sim) { s.Break(1, nccl.RemoteError) }, lost: true},
	} {
		t.Run(name, func(t *testing.T) { failing(t, c.hurt, c.lost) })
	}
}

func failing(t *testing.T, hurt func(s *ncclsim.Sim), lost bool) {
	devices := cudasim.New(cudasim.Config{Devices: 2, Patience: simPatience})
	cudasim.Limit(t, devices)
	library := ncclsim.New(devices.Driver(), ncclsim.Version)
	groups, err := pg.InProcess(t.Context(), 2, pg.Config{Backends: "cpu:host,cuda:nccl", Timeout: time.Minute})
	require.NoError(t, err)
	opened, hurts := make(chan error, 2), make(chan struct{})
	ends := make(chan error, 2)
	for i, g := range groups {
		go func() {
			ends <- life(t.Context(), g, devices.Driver(), library, i, nccl.Options{}, func(r *rank) error {
				x, err := r.moved(r.numbered(colligo.Int64, 5))
				if err != nil {
					return err
				}
				opened <- r.AllReduce(r.ctx, x, colligo.Sum)
				<-hurts
				for {
					if err := r.AllReduceAsync(r.ctx, x, colligo.Max).Synchronize(r.ctx); err != nil {
						return err
					}
				}
			})
		}()
	}
	require.NoError(t, <-opened)
	require.NoError(t, <-opened)
	hurt(library)
	close(hurts)
	for range groups {
		select {
		case err := <-ends:
			require.Error(t, err)
			require.Regexp(t, "ncclSystemError|ncclRemoteError", err.Error())
			require.Equal(t, lost, errors.Is(err, colligo.ErrPeerLost), "%v", err)
			if lost {
				require.Regexp(t, "rank [01] is gone, or the network to it has failed", err.Error())
			}
		case <-time.After(time.Minute):
			t.Fatal("a rank hangs after an error of the library")
		}
	}
	require.NoError(t, library.Close())
	devices.Close()
}

// TestNotFound says what was searched.
func TestNotFound(t *testing.T) {
	_, err := nccl.Open("/nowhere/libnccl.so.2")
	require.ErrorIs(t, err, nccl.ErrNotFound)
	require.ErrorContains(t, err, "/nowhere/libnccl.so.2")
}
