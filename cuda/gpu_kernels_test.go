package cuda_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/kernels/ptx"
)

func random(t testing.TB) *rand.Rand {
	const seed = 11
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// functions loads a module and logs how long the driver took.
func functions(t testing.TB, thread cuda.Thread, m ptx.Module) map[string]cuda.Function {
	ptx, err := m.PTX()
	require.NoError(t, err)
	start := time.Now()
	all := map[string]cuda.Function{}
	on(t, thread.Device, func(thread cuda.Thread) {
		module, err := thread.LoadModule(m.Name(), ptx)
		require.NoError(t, err)
		t.Cleanup(func() {
			on(t, thread.Device, func(thread cuda.Thread) { require.NoError(t, thread.UnloadModule(module)) })
		})
		for _, e := range m.Entries() {
			all[e.Name], err = thread.Function(module, e.Name)
			require.NoError(t, err)
		}
	})
	t.Logf("module %s: %d bytes of PTX, %d entry points, loaded in %v", m.Name(), len(ptx), len(all), time.Since(start).Round(time.Millisecond))
	return all
}

// bench is one device with memory for operands.
type bench struct {
	t      testing.TB
	thread cuda.Thread
	s      cuda.Stream
	device cuda.Pointer
	pinned *cuda.Host
}

const benchBytes = 8 << 20

func newBench(t testing.TB, d *cuda.Device) *bench {
	thread := enter(t, d)
	return &bench{t, thread, stream(t, thread), alloc(t, thread, benchBytes), host(t, thread, benchBytes)}
}

// load puts b at offset at of the device's memory, read returns what is there.
func (x *bench) load(at int, b []byte) cuda.Pointer {
	copy(x.pinned.Bytes[at:], b)
	on(x.t, x.thread.Device, func(thread cuda.Thread) {
		require.NoError(x.t, thread.Copy(x.device+cuda.Pointer(at), x.pinned.Device+cuda.Pointer(at), len(b), x.s))
	})
	return x.device + cuda.Pointer(at)
}

func (x *bench) read(at, n int) []byte {
	on(x.t, x.thread.Device, func(thread cuda.Thread) {
		require.NoError(x.t, thread.Copy(x.pinned.Device+cuda.Pointer(at), x.device+cuda.Pointer(at), n, x.s))
		require.NoError(x.t, thread.Synchronize(x.s))
	})
	return bytes.Clone(x.pinned.Bytes[at : at+n])
}

func (x *bench) launch(f cuda.Function, blocks, threads uint32, args unsafe.Pointer) {
	on(x.t, x.thread.Device, func(thread cuda.Thread) {
		require.NoError(x.t, thread.Launch(f, cuda.Grid{Blocks: blocks, Threads: threads}, args, x.s))
	})
}

// bits is n bytes of d: half random patterns, half small ones.
func bits(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	mask := byte(0xff)
	if rnd.IntN(2) == 0 {
		mask = 0x3f
	}
	for i := range b {
		b[i] = byte(rnd.Uint32()) & mask
	}
	return b
}

// sameBits compares elements; NaNs equal one another.
func sameBits(d colligo.DType, a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	size := d.Real().Size()
	for i := 0; i < len(a); i += size {
		if x, y := a[i:i+size], b[i:i+size]; !bytes.Equal(x, y) && !(isNaN(d.Real(), x) && isNaN(d.Real(), y)) {
			return false
		}
	}
	return true
}

func isNaN(d colligo.DType, b []byte) bool {
	f := 0.0
	switch d {
	case colligo.Float64:
		f = math.Float64frombits(binary.LittleEndian.Uint64(b))
	case colligo.Float32:
		f = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case colligo.Float16:
		f = float64(colligo.Float16ToFloat32(binary.LittleEndian.Uint16(b)))
	case colligo.BFloat16:
		f = float64(colligo.BFloat16ToFloat32(binary.LittleEndian.Uint16(b)))
	case colligo.Float8E4M3FN:
		f = float64(colligo.Float8E4M3FNToFloat32(b[0]))
	case colligo.Float8E5M2:
		f = float64(colligo.Float8E5M2ToFloat32(b[0]))
	}
	return math.IsNaN(f)
}

func TestGPUReducesLikeTheCPU(t *testing.T) {
	x, rnd := newBench(t, gpus(t)[0]), random(t)
	for _, d := range colligo.DTypes() {
		for k := colligo.KindSum; k < colligo.KindPremulSum; k++ {
			m, err := ptx.ReduceModule(d, k, ptx.LocalFamily)
			if err != nil || d.Complex() {
				continue // not defined, or the same module as its real part's
			}
			f := functions(t, x.thread, m)
			for i := range 40 {
				x.reduce(rnd, f, d, k, i)
			}
		}
	}
}

func (x *bench) reduce(rnd *rand.Rand, f map[string]cuda.Function, d colligo.DType, k colligo.OpKind, i int) {
	count, sources, step := rnd.IntN(5000), 2, kernels.Step{Ranks: 1, SumLast: rnd.IntN(2) == 0, Partial: rnd.IntN(2) == 0}
	if k == colligo.KindAvg {
		step.Ranks = 1 + rnd.IntN(8)
	}
	n, in := count*d.Size(), make([][]byte, sources)
	offset := rnd.IntN(16/d.Size()) * d.Size()
	args := &ptx.ReduceArgs{Bytes: uint64(n), Sources: uint32(sources), Divisor: uint32(step.Ranks)}
	if step.SumLast {
		args.Sums = 1
	}
	if step.Partial {
		args.Partial = 1
	}
	for j := range in {
		if i%4 >= 2 {
			offset = rnd.IntN(16/d.Size()) * d.Size()
		}
		in[j] = bits(rnd, n)
		args.In[j] = uint64(x.load(j*(64<<10)+offset, in[j]))
	}
	at := 8*(64<<10) + 16 + offset
	args.Out = uint64(x.load(at-16, bytes.Repeat([]byte{0xcc}, n+32)) + 16)
	x.launch(f[ptx.ReduceTwo], uint32(1+rnd.IntN(5)), 32*uint32(1+rnd.IntN(16)), unsafe.Pointer(args))
	got, want := x.read(at-16, n+32), make([]byte, n)
	require.NoError(x.t, kernels.FoldStep(d, k, want, in, step))
	require.True(x.t, sameBits(d, want, got[16:16+n]), "%v of %v, %d elements, %d sources, case %d", k, d, count, sources, i)
	require.Equal(x.t, bytes.Repeat([]byte{0xcc}, 32), append(got[:16:16], got[16+n:]...), "bytes outside the result")
}

// spills is how many bytes of local memory a thread of an entry point may have, where it has some.
var spills = map[string]int{ptx.AllReduceTiles: 88, ptx.AllReduceDirect: 48, ptx.ExchangeRotation: 16, ptx.ExchangeLL: 8}

// TestGPUKernelsStayInRegisters finds kernels that the driver's compiler has too few registers for. Of reduce_scatter by tiles that
// took a sixth of the time.
func TestGPUKernelsStayInRegisters(t *testing.T) {
	thread := gpus(t)[0]
	modules := []ptx.Module{ptx.MoveModule()}
	for _, d := range []colligo.DType{colligo.Float32, colligo.BFloat16, colligo.Float16, colligo.Int64} {
		for _, f := range []ptx.Family{ptx.LocalFamily, ptx.LLFamily, ptx.TileFamily, ptx.LL128Family, ptx.SentinelFamily,
			ptx.FusedFamily, ptx.DirectFamily} {
			m, err := ptx.ReduceModule(d, colligo.KindSum, f)
			require.NoError(t, err)
			modules = append(modules, m)
		}
	}
	x := newBench(t, thread)
	for _, m := range modules {
		for name, f := range functions(t, x.thread, m) {
			on(t, thread, func(thread cuda.Thread) {
				local, r := thread.Driver().FuncGetAttribute(cuda.LocalBytes, f)
				require.Equal(t, cuda.Success, r)
				registers, r := thread.Driver().FuncGetAttribute(cuda.Registers, f)
				require.Equal(t, cuda.Success, r)
				t.Logf("%-20s %-28s %3d registers %4d bytes of local memory", m.Name(), name, registers, local)
				assert.LessOrEqual(t, local, spills[name], "%s of %s", name, m.Name())
			})
		}
	}
}

func TestGPUUnaryLikeTheCPU(t *testing.T) {
	x, rnd := newBench(t, gpus(t)[0]), random(t)
	for _, d := range colligo.DTypes() {
		m, err := ptx.UnaryModule(d)
		if err != nil || d.Complex() {
			continue
		}
		f := functions(t, x.thread, m)
		for range 20 {
			x.unary(rnd, f, d)
		}
	}
}

func (x *bench) unary(rnd *rand.Rand, f map[string]cuda.Function, d colligo.DType) {
	average, err := kernels.Lookup(d, colligo.KindAvg)
	require.NoError(x.t, err)
	n := rnd.IntN(3000) * d.Size()
	in, want := bits(rnd, n), make([]byte, n)
	at := rnd.IntN(16/d.Size()) * d.Size()
	args := &ptx.UnaryArgs{In: uint64(x.load(at, in)), Out: uint64(x.device) + 1<<20, Count: uint64(n / d.Size()), Factor: 0.3}
	x.launch(f[ptx.Scale], 3, 64, unsafe.Pointer(args))
	average.Scale(want, in, 0.3)
	require.True(x.t, sameBits(d, want, x.read(1<<20, n)), "scale of %v", d)
}

func TestGPUCopies(t *testing.T) {
	x, rnd := newBench(t, gpus(t)[0]), random(t)
	f := functions(t, x.thread, ptx.MoveModule())
	for range 100 {
		in := bits(rnd, rnd.IntN(9000))
		args := &ptx.CopyArgs{In: uint64(x.load(rnd.IntN(16), in)), Bytes: uint64(len(in))}
		at := 1<<20 + rnd.IntN(16)
		args.Out = uint64(x.load(at-16, bytes.Repeat([]byte{0xcc}, len(in)+32)) + 16)
		x.launch(f[ptx.CopyBytes], uint32(1+rnd.IntN(3)), 32, unsafe.Pointer(args))
		guard := bytes.Repeat([]byte{0xcc}, 16)
		require.Equal(t, bytes.Join([][]byte{guard, in, guard}, nil), x.read(at-16, len(in)+32))
	}
	for _, n := range []int{0, 1, 63, 65, 500} {
		at := x.load(0, bytes.Repeat([]byte{0xcc}, 16*n+16))
		args := &ptx.FillArgs{Out: uint64(at), Lines: uint64(n), Line: [4]uint32{1, 2, 3, 1 << 31}}
		x.launch(f[ptx.FillLines], 2, 32, unsafe.Pointer(args))
		line := []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1 << 7}
		require.Equal(t, append(bytes.Repeat(line, n), bytes.Repeat([]byte{0xcc}, 16)...), x.read(0, 16*n+16), "%d lines", n)
	}
}
