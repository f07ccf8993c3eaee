package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "8": 8, "8B": 8, "1Ki": 1024, "1KiB": 1024, "64k": 64 << 10,
		"3Mi": 3 << 20, "2Gi": 2 << 30, "1g": 1 << 30} {
		n, err := parseSize(text)
		require.NoError(t, err, text)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{"", "Ki", "-1", "1.5Ki", "1Ti", "8 bytes", "99999999999Gi"} {
		_, err := parseSize(text)
		require.Error(t, err, text)
	}
}

func TestFormatSize(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 1024, 1536, 3 << 20, 5 << 30} {
		again, err := parseSize(formatSize(n))
		require.NoError(t, err)
		require.Equal(t, n, again)
	}
}

func TestSizes(t *testing.T) {
	require.Equal(t, []int{8, 32, 128, 512}, sizes(8, 512, 4))
	require.Equal(t, []int{8, 32, 128, 500}, sizes(8, 500, 4))
	require.Equal(t, []int{8}, sizes(8, 8, 2))
	require.Equal(t, []int{0, 64}, sizes(0, 64, 2))
	require.Equal(t, []int{1 << 61, 1<<62 + 1}, sizes(1<<61, 1<<62+1, 4)) // no overflow
}

func TestDefaultSizes(t *testing.T) {
	o, err := parse([]string{"all_reduce"})
	require.NoError(t, err)
	all := o.sizes(o.collectives[0])
	require.Equal(t, 8, all[0])
	require.Equal(t, 64<<20, all[len(all)-1])
}

func TestFlagsAnywhere(t *testing.T) {
	o, err := parse([]string{"-n", "7", "all_reduce", "-ranks", "3", "broadcast", "-check=false"})
	require.NoError(t, err)
	require.Equal(t, 7, o.iterations)
	require.Equal(t, automatic, o.warm)
	require.Equal(t, 3, o.ranks)
	require.True(t, o.ranksSet)
	require.False(t, o.verify)
	require.Len(t, o.collectives, 2)
	require.Equal(t, "broadcast", o.collectives[1].name)
}

// TestShape holds sizes against nccl-tests': count is of one rank, size of all parts.
func TestShape(t *testing.T) {
	all, err := collectivesNamed([]string{"all_reduce", "all_gather"})
	require.NoError(t, err)
	for _, c := range []struct{ which, bytes, elem, ranks, count, shown int }{
		{0, 1024, 4, 4, 256, 1024}, {0, 1022, 4, 4, 255, 1020}, {0, 2, 4, 4, 1, 4}, {0, 0, 4, 4, 0, 0},
		{1, 1024, 4, 4, 64, 1024}, {1, 1023, 4, 4, 63, 1008}, {1, 8, 4, 4, 1, 16}, {1, 0, 4, 4, 0, 0},
	} {
		count, shown := all[c.which].shape(c.bytes, c.elem, c.ranks)
		require.Equal(t, []int{c.count, c.shown}, []int{count, shown}, "%+v", c)
	}
}

// TestBusFactors holds the factors of nccl-tests' PERFORMANCE.md.
func TestBusFactors(t *testing.T) {
	want := map[string][2]float64{ // of 4 and of 8 ranks
		"all_reduce": {1.5, 1.75}, "broadcast": {1, 1}, "reduce": {1, 1}, "all_gather": {.75, .875},
		"reduce_scatter": {.75, .875}, "all_to_all": {.75, .875}, "gather": {.75, .875}, "scatter": {.75, .875},
		"sendrecv": {1, 1}, "barrier": {1, 1},
	}
	require.Len(t, collectives(), len(want))
	for _, c := range collectives() {
		require.Equal(t, want[c.name], [2]float64{c.bus(4), c.bus(8)}, c.name)
		require.False(t, c.bus(1) < 0)
	}
}
