package bootstrap

import (
	"math/bits"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport/shm"
)

func TestCensus(t *testing.T) {
	c := census{}
	for range 3 {
		c.add(&info{Node: "a", CPUs: []byte{0x03}})
	}
	require.True(t, c.crowded(), "three ranks on two cores")
	c = census{}
	for _, cpus := range [][]byte{{1}, {2}, {0, 0, 4}} {
		c.add(&info{Node: "a", CPUs: cpus})
		c.add(&info{Node: "b", CPUs: []byte{0xff}})
		c.add(&info{Node: "old"})
	}
	require.False(t, c.crowded(), "each of them is bound to a core of its own")
	c.add(&info{Node: "a", CPUs: []byte{1}})
	require.True(t, c.crowded())
}

// TestCensusSpare asks for two cores for each rank of every host.
func TestCensusSpare(t *testing.T) {
	c := census{}
	for range 2 {
		c.add(&info{Node: "a", CPUs: []byte{0x0f}})
		c.add(&info{Node: "b", CPUs: []byte{0xff}})
	}
	require.True(t, c.spare())
	c.add(&info{Node: "b", CPUs: []byte{0xff}})
	require.True(t, c.spare())
	c.add(&info{Node: "a", CPUs: []byte{0x0f}})
	require.False(t, c.spare(), "three ranks on four cores")
	c = census{}
	c.add(&info{Node: "old"})
	require.False(t, c.spare(), "nobody knows of its cores")
}

func TestOwnCPUs(t *testing.T) {
	n := 0
	for _, b := range shm.CPUs() {
		n += bits.OnesCount8(b)
	}
	require.Equal(t, runtime.NumCPU(), n)
}
