package cudasim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// Zeros are set by giving pages back where there are many: not a byte more than asked for becomes zero.
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
