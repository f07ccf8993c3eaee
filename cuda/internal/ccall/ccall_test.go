//go:build (linux || windows) && (amd64 || arm64)

package ccall

import (
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

// TestWords hands C up to 14 words, in registers and on the stack, and takes negative results.
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

// TestWordsOfAStackThatMoves has C call Go that needs more stack than there is. The goroutine's stack moves, and with it the words that C
// was handed. The result is that of C all the same.
func TestWordsOfAStackThatMoves(t *testing.T) {
	var deep func(n int) uintptr
	deep = func(n int) uintptr {
		if n == 0 {
			return 0
		}
		var room [256]byte
		room[n%len(room)] = 1
		return deep(n-1) + uintptr(room[n%len(room)])
	}
	const depth = 1000
	callback := purego.NewCallback(func(a, b, c, d, e, f, g uintptr) uintptr { return deep(depth) + a + g })
	for range 100 {
		result := make(chan int32)
		go func() { result <- Words(callback, 1, 2, 3, 4, 5, 6, 7) }() // a goroutine begins with a small stack
		require.Equal(t, int32(depth+1+7), <-result)
	}
}
