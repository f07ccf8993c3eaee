package prefetch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNext asks for memory of several sizes, to the end of an allocation and beyond it. Nothing changes.
func TestNext(t *testing.T) {
	var words [100]uint64
	for i := range words {
		words[i] = uint64(i)
		Next(&words[i])
		Next((*[1000]byte)(nil)) // nobody has it, and nothing happens
	}
	Next(&words)
	Next(new(struct{}))
	for i, w := range words {
		require.Equal(t, uint64(i), w)
	}
}

// BenchmarkNext asks for three lines.
func BenchmarkNext(b *testing.B) {
	var slot [3 * lineBytes]byte
	for b.Loop() {
		Next(&slot)
	}
}
