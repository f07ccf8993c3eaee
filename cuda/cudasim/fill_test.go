package cudasim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// Zeros are stored only in pages that hold something else: not a byte more than asked for becomes zero, and not one less.
func TestFillsAllAndNoMore(t *testing.T) {
	const words = 1 << 18
	r := newRig(t, cudasim.Config{})
	p := r.alloc(0, 4*words)
	for _, part := range [][2]int{{0, words}, {1, words - 2}, {1023, 1 << 17}, {1024, 1 << 17}, {77, 20}} {
		for _, value := range []uint32{0, 3} {
			r.on(0, func(th cuda.Thread) {
				require.NoError(t, th.Set32(p, 5, words, 0))
				require.NoError(t, th.Set32(p+cuda.Pointer(4*part[0]), value, part[1], 0))
			})
			for i, v := range r.words(0, p, words) {
				want := uint32(5)
				if part[0] <= i && i < part[0]+part[1] {
					want = value
				}
				if v != want {
					t.Fatalf("word %d is %d, not %d", i, v, want)
				}
			}
		}
	}
}

// Memory that a Sim takes over from another one is zero, however it was written.
func TestTakenMemoryIsZero(t *testing.T) {
	const words = 10_000
	for _, write := range []func(b *cudasim.Block, at uint64){
		func(b *cudasim.Block, at uint64) { copy(b.Store(at+5000, 4), "abcd") },
		func(b *cudasim.Block, at uint64) { b.StoreRelease32(at+8192, 1) },
		func(b *cudasim.Block, at uint64) { b.Add32(at+4*words-4, 1) },
		func(b *cudasim.Block, at uint64) { b.StoreLL(at+4096-16, make([]byte, 16), 7) },
		func(b *cudasim.Block, at uint64) { b.StoreLL128(at+256, make([]byte, 240), 7) },
		func(b *cudasim.Block, at uint64) { b.StoreSentinel(at+12288, []byte{1}) },
		func(b *cudasim.Block, at uint64) { b.Clear(at+20480, 3, [16]byte{1}) },
	} {
		r := newRig(t, cudasim.Config{})
		p := r.alloc(0, 4*words)
		require.Equal(t, make([]uint32, words), r.words(0, p, words))
		f := r.function(0, "write", 8, func(l *cudasim.Launch) { l.Each(func(b *cudasim.Block) { write(b, *cudasim.Args[uint64](l)) }) })
		r.on(0, func(th cuda.Thread) {
			require.NoError(t, th.Set32(p+256, 0, 2000, 0))
			require.NoError(t, th.Launch(f, cuda.Grid{Blocks: 1, Threads: 32}, args(uint64(p)), 0))
			require.NoError(t, th.Set32(p+4*(words-100), 3, 50, 0))
		})
		require.NotEqual(t, make([]uint32, words), r.words(0, p, words))
		r.close()
		r.sim.Close()
	}
}
