//go:build (linux || windows) && (amd64 || arm64)

package ccall

import (
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

// TestWords hands C up to 14 words, in registers and on the stack, and takes negative results, with frames that other calls have used.
func TestWords(t *testing.T) {
	var got []uintptr
	answer := int32(0)
	callback := purego.NewCallback(func(a, b, c, d, e, f, g, h, i, j, k, l, m, n uintptr) uintptr {
		got = []uintptr{a, b, c, d, e, f, g, h, i, j, k, l, m, n}
		return uintptr(uint32(answer))
	})
	for n := range 15 {
		words := make([]uintptr, n)
		for i := range words {
			words[i] = uintptr(100*n+i) | 1<<40
		}
		answer = int32(n - 7)
		require.Equal(t, answer, Words(callback, words...))
		require.Equal(t, words, got[:n])
	}
}
