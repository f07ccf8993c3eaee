//go:build amd64 || arm64

package ccall

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

// TestWord has C's time write the time, from goroutines whose stacks grow and move while the garbage collector runs.
func TestWord(t *testing.T) {
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	require.NoError(t, err)
	at, err := purego.Dlsym(libc, "time")
	require.NoError(t, err)
	before := time.Now().Unix() - 1 // C's clock may be some milliseconds late
	var over atomic.Bool
	defer over.Store(true)
	var deep func(n int) bool
	deep = func(n int) bool {
		word, result := Word(at)
		right := int64(word) >= before && int64(word) <= time.Now().Unix() && result == int32(word) // a result has 32 bits
		return right && (n == 0 || deep(n-1))
	}
	for range 2 {
		go func() {
			for !over.Load() {
				runtime.GC()
			}
		}()
	}
	for range 200 {
		done := make(chan bool)
		go func() { done <- deep(1000) }()
		require.True(t, <-done)
	}
}

// BenchmarkWord compares the way of Word with that of Words.
func BenchmarkWord(b *testing.B) {
	libc, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW)
	require.NoError(b, err)
	at, err := purego.Dlsym(libc, "time")
	require.NoError(b, err)
	b.Run("word", func(b *testing.B) {
		for b.Loop() {
			Word(at)
		}
	})
	b.Run("words", func(b *testing.B) {
		for b.Loop() {
			Words(at, 0)
		}
	})
}
