package cudasim_test

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda/cudasim"
)

// TestCloseLetsGo: of a closed Sim that somebody keeps, as package testing does, the processes are gone, and the goroutines.
func TestCloseLetsGo(t *testing.T) {
	before := runtime.NumGoroutine()
	sim := cudasim.New(cudasim.Config{Devices: 2})
	cudasim.Limit(t, sim)
	process := usedUp(t, sim)
	for end := time.Now().Add(30 * time.Second); process.Value() != nil || runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "process %v, %d goroutines, before there were %d", process.Value(), runtime.NumGoroutine(), before)
		runtime.GC()
	}
	require.Len(t, sim.Leaks(), 1) // the word that usedUp takes
	require.Empty(t, sim.Races())
	require.Empty(t, sim.Faults())
}

// usedUp returns the process of a Sim that has run kernels and is closed.
func usedUp(t *testing.T, sim *cudasim.Sim) weak.Pointer[cudasim.Process] {
	r := open(t, sim, sim.Driver())
	c := newScene(r)
	for range 3 {
		c.run(c.s, "count", func(l *cudasim.Launch) {
			l.Each(func(b *cudasim.Block) { b.Add32(cudasim.Args[addresses](l).C, 1) })
		})
	}
	c.sync(c.s)
	require.Equal(t, []uint32{6}, r.words(1, c.flags, 1))
	_ = r.alloc(0, 64)
	r.undo = r.undo[:len(r.undo)-1]
	r.close()
	p := weak.Make(sim.Processes()[0])
	sim.Close()
	return p
}
