package transporttest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// Opener opens the meshes of all ranks of a group in this process and has them closed when t ends. A change that is not
// nil adjusts the configuration of each rank before its mesh is opened.
type Opener func(t *testing.T, size int, change func(rank int, c *transport.Config)) []transport.Mesh

// OpenTimeout is how long Open gives a group to form.
const OpenTimeout = time.Minute

// groups counts the groups opened by this process, so that no two of them share an identity.
var groups atomic.Uint32

// Open opens size ranks at the same time, each with 4 lanes, a secret and one Rendezvous, and fails t if one of them
// fails. The meshes are closed when t ends. An Opener for a medium is one line around it.
func Open(t *testing.T, size int, open func(context.Context, *transport.Config) (transport.Mesh, error),
	change func(rank int, c *transport.Config)) []transport.Mesh {
	t.Helper()
	meshes, errs := openAll(t, size, open, change)
	t.Cleanup(func() { closeAll(t, meshes) })
	failed := false
	for rank, err := range errs {
		if err != nil {
			failed = true
			t.Errorf("open rank %d of %d: %v", rank, size, err)
		}
	}
	if failed {
		t.FailNow()
	}
	return meshes
}

func openAll(t *testing.T, size int, open func(context.Context, *transport.Config) (transport.Mesh, error),
	change func(int, *transport.Config)) ([]transport.Mesh, []error) {
	ctx, cancel := context.WithTimeout(context.Background(), OpenTimeout)
	defer cancel()
	meshes, errs := make([]transport.Mesh, size), make([]error, size)
	group, rendezvous := groups.Add(1), NewRendezvous()
	var wg sync.WaitGroup
	for rank := range size {
		c := &transport.Config{Rank: rank, Size: size, Group: group, Name: t.Name(), Lanes: 4,
			Secret: []byte("a secret of thirty-two bytes ..."), Rendezvous: rendezvous}
		if change != nil {
			change(rank, c)
		}
		wg.Go(func() { meshes[rank], errs[rank] = open(ctx, c) })
	}
	wg.Wait()
	return meshes, errs
}

func closeAll(t *testing.T, meshes []transport.Mesh) {
	var wg sync.WaitGroup
	for rank, m := range meshes {
		if m == nil {
			continue
		}
		wg.Go(func() {
			if err := m.Close(); err != nil {
				t.Errorf("close rank %d: %v", rank, err)
			}
		})
	}
	wg.Wait()
}

// linked proves that a mesh tells of each peer once, before it has opened.
func linked(t *testing.T, open Opener) {
	const size = 3
	var mu sync.Mutex
	told := map[[2]int]int{}
	open(t, size, func(rank int, c *transport.Config) {
		c.Events.Linked = func(peer int) {
			mu.Lock()
			defer mu.Unlock()
			told[[2]int{rank, peer}]++
		}
	})
	mu.Lock()
	defer mu.Unlock()
	for rank := range size {
		for peer := range size {
			if n := told[[2]int{rank, peer}]; rank != peer && n != 1 {
				t.Errorf("rank %d was told %d times that it is linked with rank %d", rank, n, peer)
			}
		}
	}
	if len(told) != size*(size-1) {
		t.Errorf("told: %v", told)
	}
}
