package callers

import (
	"fmt"
	"iter"
	"regexp"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wrapper matches functions that carry out go and defer statements and method values. runtime.Callers leaves them out.
var wrapper = regexp.MustCompile(`\.(gowrap|deferwrap)\d+$|-fm$|^runtime\.deferreturn$`)

// lines names the callers that addresses stand for.
func lines(pcs []uintptr) (all []string) {
	frames := runtime.CallersFrames(pcs)
	for more := len(pcs) > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if wrapper.MatchString(f.Function) {
			continue
		}
		all = append(all, fmt.Sprintf("%s:%d", f.Function, f.Line))
	}
	return all
}

// both takes the same stack by Fill and by runtime.Callers.
//
//go:noinline
func both(pcs, known []uintptr) (n, m int) { return Fill(pcs), runtime.Callers(1, known) }

// same fails a test if Fill and runtime.Callers find different callers. With the tag noasm Fill is runtime.Callers, and only the number of
// callers that it leaves out is tested.
func same(t testing.TB) {
	var pcs, known [64]uintptr
	n, m := both(pcs[:], known[:])
	assert.Equal(t, lines(known[:m]), lines(pcs[:n]))
}

func inlined(t testing.TB) { same(t) }

type caller struct{ t testing.TB }

//go:noinline
func (c *caller) call() { inlined(c.t) }

// TestSameCallers holds invariant 2.
func TestSameCallers(t *testing.T) {
	same(t)
	inlined(t)
	func() { defer same(t) }()
	(&caller{t}).call()
	for range slices.Values([]int{1}) {
		same(t)
	}
	next, stop := iter.Pull(func(yield func(int) bool) {
		same(t)
		yield(0)
		inlined(t)
	})
	next()
	next()
	stop()
	done := make(chan bool)
	go func() {
		defer close(done)
		same(t)
	}()
	<-done
}

// deep calls itself, so that the stack grows and moves.
//
//go:noinline
func deep(t testing.TB, n int) int {
	var room [1 << 10]byte
	if n == 0 {
		same(t)
		return 0
	}
	return deep(t, n-1) + int(room[n])
}

func TestMovedStack(t *testing.T) {
	done := make(chan bool)
	go func() {
		defer close(done)
		deep(t, 40)
		deep(t, 0)
	}()
	<-done
}

func TestRoom(t *testing.T) {
	require.Zero(t, Fill(nil))
	var all [64]uintptr
	n := Fill(all[:])
	require.Greater(t, n, 1)
	require.Less(t, n, len(all))
	for room := 1; room < n; room++ {
		pcs := make([]uintptr, room)
		require.Equal(t, room, Fill(pcs))
		require.Equal(t, all[1:room], pcs[1:])
	}
}

// TestNoMemory holds invariant 1.
func TestNoMemory(t *testing.T) {
	var pcs [32]uintptr
	require.Zero(t, testing.AllocsPerRun(100, func() { Fill(pcs[:]) }))
}

func BenchmarkFill(b *testing.B) {
	var pcs [32]uintptr
	b.Run("Fill", func(b *testing.B) {
		for b.Loop() {
			Fill(pcs[:])
		}
	})
	b.Run("runtime.Callers", func(b *testing.B) {
		for b.Loop() {
			runtime.Callers(1, pcs[:])
		}
	})
}
