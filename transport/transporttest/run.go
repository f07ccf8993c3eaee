package transporttest

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// Case is one proof of the suite. Run may be called inside a testing/synctest bubble.
type Case struct {
	Name string
	Run  func(t *testing.T, open Opener)
}

// limit is how long any one exchange of the suite may take.
const limit = time.Minute

// Run proves every case as a subtest of t.
func Run(t *testing.T, open Opener) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, open) })
	}
}

// Cases returns the suite. Each fails if goroutines are left when its meshes have been closed.
func Cases() []Case {
	cases := []Case{
		{"one rank", oneRank},
		{"properties", properties},
		{"linked", linked},
		{"sizes plain", func(t *testing.T, open Opener) { sizes(t, open, Plain) }},
		{"sizes in slots", func(t *testing.T, open Opener) { sizes(t, open, InSlot) }},
		{"sizes with checksum", sizesChecked},
		{"slots", slots},
		{"sender's memory", sendersMemory},
		{"ping-pong", pingPong},
		{"first frame", firstFrame},
		{"credit", credit},
		{"lanes", lanes},
		{"wait deadline", waitDeadline},
		{"wake", wake},
		{"notes", notes},
		{"note limits", noteLimits},
		{"note memory", noteMemory},
		{"goodbye", goodbye},
		{"goodbye mid-stream", goodbyeMidStream},
		{"goodbye of one", goodbyeOfOne},
		{"close", closeTwice},
		{"close full", closeFull},
	}
	for _, size := range []int{2, 3, 5, 8} {
		cases = append(cases, Case{fmt.Sprintf("load size=%d", size),
			func(t *testing.T, open Opener) { load(t, open, size) }})
	}
	for i, c := range cases {
		cases[i].Run = func(t *testing.T, open Opener) {
			NoLeaks(t)
			c.Run(t, open)
		}
	}
	return cases
}

// NoLeaks fails t if more goroutines run when t has cleaned up than run now. Call it before anything is opened.
func NoLeaks(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for range 6000 {
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		// In a bubble no real time has passed: what was just ending is in the count, but not in the stacks.
		if after := bytes.Count(stacks, []byte("\n\ngoroutine ")) + 1; after > before {
			t.Errorf("%d goroutines ran before and %d after:\n%s", before, after, stacks)
		}
	})
}

// cluster is all ranks of one group.
type cluster struct {
	meshes []transport.Mesh
	group  uint32
}

// start opens a group; events go to box if it is not nil.
func start(t *testing.T, open Opener, size int, box *inbox, change func(rank int, c *transport.Config)) *cluster {
	t.Helper()
	k := &cluster{}
	k.meshes = open(t, size, func(rank int, c *transport.Config) {
		if change != nil {
			change(rank, c)
		}
		if box != nil {
			c.Events = box.events(rank)
		}
		if rank == 0 {
			k.group = c.Group
		}
	})
	return k
}

// stream returns frames of the given sizes from src to dst.
func (k *cluster) stream(src, dst, lane int, sizes ...int) *Stream {
	return &Stream{Group: k.group, Src: src, Dst: dst, Lane: lane, Sizes: sizes}
}

// together runs f for every rank at once and fails t with every error.
func (k *cluster) together(t *testing.T, f func(rank int, m transport.Mesh) error) {
	t.Helper()
	errs := make([]error, len(k.meshes))
	var wg sync.WaitGroup
	for rank, m := range k.meshes {
		wg.Go(func() {
			if err := f(rank, m); err != nil {
				errs[rank] = fmt.Errorf("on rank %d: %w", rank, err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// small makes frames of at most 64 KiB, so that a case costs little whatever the medium prefers.
func small(_ int, c *transport.Config) { c.FrameBytes = 64 << 10 }

func oneRank(t *testing.T, open Opener) {
	m := open(t, 1, nil)[0]
	start := time.Now()
	for idle := 1; time.Since(start) < time.Millisecond; idle++ {
		m.Wait(idle, start.Add(time.Millisecond))
	}
	m.Wake()
	m.Wait(1, time.Time{})
	if err := m.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func properties(t *testing.T, open Opener) {
	for _, limit := range []int{0, 64, 4096} {
		meshes := open(t, 2, func(_ int, c *transport.Config) { c.FrameBytes = limit })
		for rank, m := range meshes {
			n := m.Link(1 - rank).MaxFrame()
			if n < 64 || n > transport.MaxFrame || n%64 != 0 || limit > 0 && n > limit {
				t.Errorf("rank %d: frames of at most %d bytes, asked for were %d", rank, n, limit)
			}
			if m.String() == "" {
				t.Errorf("rank %d: the mesh has no name", rank)
			}
		}
	}
}
