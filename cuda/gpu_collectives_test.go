package cuda_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// ranks are the ranks of a group in one process, on as many devices as there are: rank r on device r mod devices. The
// kernels of all run at once, so their grids are small.
type ranks struct {
	t     testing.TB
	each  []*bench
	group []ptx.GroupArgs
	f     []map[string]cuda.Function
	abort *cuda.Host
}

const (
	llSlot     = 64 << 10
	tileSlot   = 4 << 10
	mostBlocks = 4
)

func newRanks(t testing.TB, size int, modules ...ptx.Module) *ranks {
	devices := gpus(t)
	x := &ranks{t: t, abort: host(t, enter(t, devices[0]), ptx.AbortBytes)}
	clear(x.abort.Bytes)
	loaded := make([]map[string]cuda.Function, len(devices))
	for r := range size {
		at := r % len(devices)
		b := newBench(t, devices[at])
		if loaded[at] == nil {
			loaded[at] = prepare(t, b.thread, devices, modules)
		}
		x.each, x.f = append(x.each, b), append(x.f, loaded[at])
	}
	x.meet(size)
	return x
}

// prepare opens a device's way to the others and loads the modules there.
func prepare(t testing.TB, thread cuda.Thread, devices []*cuda.Device, modules []ptx.Module) map[string]cuda.Function {
	on(t, thread.Device, func(thread cuda.Thread) {
		for _, peer := range devices {
			if peer.Index() != thread.Index() {
				require.NoError(t, thread.EnablePeer(peer))
			}
		}
	})
	all := map[string]cuda.Function{}
	for _, m := range modules {
		for name, f := range functions(t, thread, m) {
			all[name] = f
		}
	}
	return all
}

// meet gives each rank its memory and tells the others where it is.
func (x *ranks) meet(size int) {
	var ll, tiles, flags, state []uint64
	for _, b := range x.each {
		zeros := func(n int) uint64 {
			p := alloc(x.t, b.thread, n)
			on(x.t, b.thread.Device, func(thread cuda.Thread) {
				require.NoError(x.t, thread.Set8(p, 0, n, b.s))
				require.NoError(x.t, thread.Synchronize(b.s))
			})
			return uint64(p)
		}
		ll = append(ll, zeros(ptx.LLBytes(size, llSlot)))
		tiles = append(tiles, zeros(ptx.TileBytes(size, tileSlot, mostBlocks)))
		flags = append(flags, zeros(ptx.FlagBytes(mostBlocks)))
		state = append(state, zeros(ptx.StateBytes(mostBlocks)))
	}
	for r := range size {
		g := ptx.GroupArgs{State: state[r], Abort: uint64(x.abort.Device), Rank: uint32(r), Size: uint32(size),
			LLSlot: llSlot, TileSlot: tileSlot}
		for d := range size {
			q := (r + d) % size
			g.LL[d], g.Tiles[d], g.Flags[d] = ll[q], tiles[q], flags[q]
		}
		x.group = append(x.group, g)
	}
}

// launch runs an entry on every rank, with arguments made by args, and waits. The first ranks are launched last in half of
// the cases.
func (x *ranks) launch(entry string, blocks uint32, backwards bool, args func(r int) unsafe.Pointer) {
	size := len(x.each)
	for i := range size {
		r := i
		if backwards {
			r = size - 1 - i
		}
		on(x.t, x.each[r].thread.Device, func(thread cuda.Thread) {
			require.NoError(x.t, thread.Launch(x.f[r][entry], cuda.Grid{Blocks: blocks, Threads: 128}, args(r), x.each[r].s))
		})
	}
}

func (x *ranks) wait() {
	deadline := time.Now().Add(10 * time.Second)
	for r, b := range x.each {
		for !x.done(b) {
			if time.Now().After(deadline) && x.abort.Bytes[0] == 0 {
				x.abort.Bytes[0] = 1
				x.t.Errorf("rank %d does not finish", r)
			}
		}
	}
	require.Zero(x.t, x.abort.Bytes[0])
}

func (x *ranks) done(b *bench) (done bool) {
	on(x.t, b.thread.Device, func(thread cuda.Thread) {
		var err error
		done, err = thread.StreamDone(b.s)
		require.NoError(x.t, err)
	})
	return done
}

const (
	inAt  = 1 << 20
	outAt = 4 << 20
)

// allReduce runs one all-reduce and compares every rank's result with the CPU's.
func (x *ranks) allReduce(rnd *rand.Rand, entry string, d colligo.DType, k colligo.OpKind, most int) {
	size := len(x.each)
	bytes := d.Size() * (rnd.IntN(most/d.Size()) + 1)
	if entry == ptx.AllReduceLLTwoShot {
		bytes = max(bytes, 16*size*size)
	}
	offset, inPlace, blocks := rnd.IntN(4)*d.Size()%16, rnd.IntN(2) == 0, uint32(1+rnd.IntN(mostBlocks))
	divisor, tile := 1, uint32(16*(1+rnd.IntN(tileSlot/16)))
	if k == colligo.KindAvg {
		divisor = size
	}
	in, args := make([][]byte, size), make([]*ptx.AllReduceArgs, size)
	for r, b := range x.each {
		in[r] = bits(rnd, bytes)
		a := &ptx.AllReduceArgs{Group: x.group[r], In: uint64(b.load(inAt+offset, in[r])), Bytes: uint64(bytes),
			Part: uint64((bytes+size-1)/size+15) / 16 * 16, Divisor: uint32(divisor), Tile: tile}
		a.Out = uint64(b.device) + outAt + uint64(offset)
		if inPlace {
			a.Out = a.In
		}
		args[r] = a
	}
	x.launch(entry, blocks, rnd.IntN(2) == 0, func(r int) unsafe.Pointer { return unsafe.Pointer(args[r]) })
	x.wait()
	want := make([]byte, bytes)
	require.NoError(x.t, kernels.Fold(d, k, want, in, divisor))
	var first []byte
	for r, b := range x.each {
		got := b.read(int(args[r].Out-uint64(b.device)), bytes)
		what := fmt.Sprintf("%s of %v %v, %d bytes, %d ranks, rank %d, in place %v", entry, d, k, bytes, size, r, inPlace)
		require.True(x.t, sameBits(d, want, got), what)
		if r == 0 {
			first = got
		}
		require.Equal(x.t, first, got, "not one answer: %s", what)
	}
}

func TestGPUAllReduceKernels(t *testing.T) {
	for _, d := range []colligo.DType{colligo.Float32, colligo.BFloat16, colligo.Float8E4M3FN, colligo.Int64} {
		for _, size := range []int{2, 3, 4, 8} {
			t.Run(fmt.Sprintf("dtype=%v/ranks=%d", d, size), func(t *testing.T) {
				ll, err := ptx.ReduceModule(d, colligo.KindAvg, ptx.LLFamily)
				require.NoError(t, err)
				tiles, err := ptx.ReduceModule(d, colligo.KindAvg, ptx.TileFamily)
				require.NoError(t, err)
				x, rnd := newRanks(t, size, ll, tiles), random(t)
				for range 40 {
					k := []colligo.OpKind{colligo.KindSum, colligo.KindAvg}[rnd.IntN(2)]
					x.allReduce(rnd, ptx.AllReduceLL, d, k, llSlot/2)
					x.allReduce(rnd, ptx.AllReduceLLTwoShot, d, k, llSlot/4*size)
					x.allReduce(rnd, ptx.AllReduceTiles, d, k, 1<<20)
				}
			})
		}
	}
}

// exchange sends random lengths between all pairs, by LL or tiles.
func (x *ranks) exchange(rnd *rand.Rand, entry string, most int) {
	size := len(x.each)
	data := make([][][]byte, size)
	for r := range data {
		for range size {
			n := 0
			if rnd.IntN(4) != 0 {
				n = rnd.IntN(most)
			}
			data[r] = append(data[r], bits(rnd, n))
		}
	}
	args, recvAt := make([]*ptx.ExchangeArgs, size), make([][]int, size)
	tile := uint32(16 * (1 + rnd.IntN(tileSlot/16)))
	for r, b := range x.each {
		a := &ptx.ExchangeArgs{Group: x.group[r], Tile: tile}
		at, to := inAt+rnd.IntN(16), outAt+rnd.IntN(16)
		recvAt[r] = make([]int, size)
		for q := range size {
			d := (q - r + size) % size
			a.Send[d], a.SendBytes[d] = uint64(b.load(at, data[r][q])), uint64(len(data[r][q]))
			a.Recv[d], a.RecvBytes[d] = uint64(b.device)+uint64(to), uint64(len(data[q][r]))
			recvAt[r][q] = to
			at, to = at+len(data[r][q]), to+len(data[q][r])
		}
		args[r] = a
	}
	x.launch(entry, uint32(1+rnd.IntN(mostBlocks)), rnd.IntN(2) == 0, func(r int) unsafe.Pointer { return unsafe.Pointer(args[r]) })
	x.wait()
	for r, b := range x.each {
		for q := range size {
			require.Equal(x.t, data[q][r], b.read(recvAt[r][q], len(data[q][r])), "%s from rank %d to rank %d of %d", entry, q, r, size)
		}
	}
}

func TestGPUExchangeKernels(t *testing.T) {
	for _, size := range []int{2, 3, 8} {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			x, rnd := newRanks(t, size, ptx.MoveModule()), random(t)
			for range 30 {
				x.exchange(rnd, ptx.ExchangeLL, llSlot/2)
				x.exchange(rnd, ptx.ExchangeTiles, 300<<10)
			}
		})
	}
}

func TestGPUAbortFlagEndsKernels(t *testing.T) {
	for _, entry := range []string{ptx.ExchangeLL, ptx.ExchangeTiles} {
		t.Run(entry, func(t *testing.T) { // with counters of its own, for ranks that were aborted send nothing more
			x := newRanks(t, 3, ptx.MoveModule())
			for _, r := range []int{0, 2} { // rank 1 never comes
				a := &ptx.ExchangeArgs{Group: x.group[r], Tile: 4096}
				for d := range 3 {
					a.Send[d], a.SendBytes[d] = uint64(x.each[r].device)+inAt, 8192
					a.Recv[d], a.RecvBytes[d] = uint64(x.each[r].device)+outAt, 8192
				}
				x.each[r].launch(x.f[r][entry], 1, 64, unsafe.Pointer(a))
			}
			time.Sleep(20 * time.Millisecond)
			require.False(t, x.done(x.each[0]), "%s does not wait", entry)
			x.abort.Bytes[0] = 1
			start := time.Now()
			for _, r := range []int{0, 2} {
				x.each[r].read(0, 1)
			}
			t.Logf("%s ended %v after the stop", entry, time.Since(start).Round(time.Microsecond))
			words := unsafe.Slice((*uint32)(unsafe.Pointer(&x.abort.Bytes[0])), 1+ptx.MaxRanks)
			require.Equal(t, uint32(1), words[1+1], "%s waited for rank 1", entry)
			require.Equal(t, make([]uint32, ptx.MaxRanks-3), words[1+3:], entry)
		})
	}
}
