//go:build amd64 || arm64

package nccl

import (
	"testing"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

// BenchmarkCall measures the way into the library and back, of a function of C that does nothing with so many words.
func BenchmarkCall(b *testing.B) {
	c, err := purego.Dlopen("libc.so.6", purego.RTLD_NOW|purego.RTLD_LOCAL)
	require.NoError(b, err)
	at, err := purego.Dlsym(c, "abs")
	require.NoError(b, err)
	t := functions{"ncclAllReduce": at}.table()
	b.ReportAllocs()
	for b.Loop() {
		t.AllReduce(1, 2, 3, Float32, Sum, 4, 5)
	}
}
