package sim_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/sim"
	"github.com/colligo-go/colligo/transport/transporttest"
)

// Ranks that do not agree fail together and say which rank differs.
func TestOpenMismatch(t *testing.T) {
	cases := map[string]func(c *transport.Config){
		"different secrets": func(c *transport.Config) { c.Secret = []byte("another") },
		"3 lanes":           func(c *transport.Config) { c.Lanes = 3 },
		"frames of 128":     func(c *transport.Config) { c.FrameBytes = 128 },
		"size 3":            func(c *transport.Config) { c.Size = 3 },
		"has joined":        func(c *transport.Config) { c.Rank = 0 },
	}
	for want, change := range cases {
		synctest.Test(t, func(t *testing.T) {
			n := sim.New(sim.Config{Size: 3})
			first := make(chan error)
			go func() {
				_, err := n.Open(t.Context(), &transport.Config{Size: 2, Lanes: 2})
				first <- err
			}()
			synctest.Wait()
			c := &transport.Config{Rank: 1, Size: 2, Lanes: 2}
			change(c)
			_, err := n.Open(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("second rank: %v, want %q", err, want)
			}
			if waiting := <-first; waiting == nil || waiting.Error() != err.Error() {
				t.Errorf("first rank: %v, second %v", waiting, err)
			}
		})
	}
}

func TestOpenMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.New(sim.Config{Size: 3})
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		errs := make(chan error)
		for _, rank := range []int{0, 2} {
			go func() {
				_, err := n.Open(ctx, &transport.Config{Rank: rank, Size: 3, Lanes: 1})
				errs <- err
			}()
		}
		for range 2 {
			if err := <-errs; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "rank 1 has not") {
				t.Errorf("error is %v", err)
			}
		}
		if _, err := n.OpenAs(t.Context(), 3, &transport.Config{Size: 1, Lanes: 1}); err == nil {
			t.Errorf("opened as rank 3 of 3")
		}
		if _, err := n.Open(t.Context(), &transport.Config{Size: 1}); err == nil {
			t.Errorf("opened without lanes")
		}
	})
}

// A rank that dies while a group forms fails the group.
func TestKillWhileForming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := sim.New(sim.Config{Size: 2})
		failed := make(chan error)
		go func() {
			_, err := n.Open(t.Context(), &transport.Config{Rank: 1, Size: 2, Lanes: 1})
			failed <- err
		}()
		synctest.Wait()
		n.Kill(1)
		if err := <-failed; !errors.Is(err, transport.ErrLost) {
			t.Errorf("error is %v", err)
		}
	})
}

// The same group forms again after it was closed, and after one of its ranks was killed.
func TestGenerations(t *testing.T) {
	everywhere(t, func(t *testing.T, n *net) {
		for generation := range 3 {
			n.send(t, stream(0, 1, 0, 2))
			n.expect(t, stream(0, 1, 0, 1), 1, nil)
			if generation == 1 {
				n.Kill(2)
			}
			together(t, 3, func(rank int) error { return n.meshes[rank].Close() })
			n.meshes = open(t, n.Net, 3, func(_ int, c *transport.Config) { c.Group = 7 })
		}
	})
}

// Groups on one network do not meet, and a fault reaches a rank in all of them, by its global number.
func TestSubgroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := start(t, sim.Config{Size: 4})
		sub := transporttest.Open(t, 2, func(ctx context.Context, c *transport.Config) (transport.Mesh, error) {
			return n.OpenAs(ctx, 3-c.Rank, c)
		}, func(_ int, c *transport.Config) { c.Group = 8 })
		n.send(t, stream(0, 1, 0, 1))
		if h, err := sub[1].Link(0).Head(0); h != nil || err != nil {
			t.Errorf("the subgroup has frame %v, error %v", h, err)
		}
		n.Kill(3)
		n.told(t, "0 lost rank 3: peer lost; 1 lost rank 3: peer lost; 2 lost rank 3: peer lost")
		if _, err := sub[1].Link(0).Head(0); !errors.Is(err, transport.ErrLost) {
			t.Errorf("rank 1 of the subgroup has error %v", err)
		}
		if _, err := sub[0].Link(1).Head(0); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("rank 0 of the subgroup has error %v", err)
		}
	})
}

// Ten thousand ranks pass a frame to their neighbours; what they do not use costs next to nothing.
func TestManyRanks(t *testing.T) {
	const size = 10_000
	transporttest.NoLeaks(t)
	n := sim.New(sim.Config{Size: size})
	before := memory()
	meshes := make([]transport.Mesh, size)
	together(t, size, func(rank int) (err error) {
		meshes[rank], err = n.Open(t.Context(), &transport.Config{Rank: rank, Size: size, Group: 7, Lanes: 2})
		return err
	})
	if each := (memory() - before) / size; each > 4096 {
		t.Errorf("an open mesh costs %d bytes", each)
	}
	together(t, size, func(rank int) error {
		m := meshes[rank]
		out, in := stream(rank, (rank+1)%size, 0, 2), stream((rank+size-1)%size, rank, 0, 2)
		return transporttest.Drive(m, 20*second, out.Sender(m, transporttest.Plain), in.Receiver(m, transporttest.Plain))
	})
	if each := (memory() - before) / size; each > 16<<10 {
		t.Errorf("a mesh with two links in use costs %d bytes", each)
	}
	together(t, size, func(rank int) error { return meshes[rank].Close() })
}

func memory() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// together runs f for every rank at once.
func together(t *testing.T, size int, f func(rank int) error) {
	t.Helper()
	start := time.Now()
	errs := make([]error, size)
	var wg sync.WaitGroup
	for rank := range size {
		wg.Go(func() {
			if err := f(rank); err != nil {
				errs[rank] = fmt.Errorf("rank %d: %w", rank, err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d ranks took %v", size, time.Since(start))
}

// A net without delays allocates nothing once its slots have been used.
func TestNoAllocations(t *testing.T) {
	n := start(t, sim.Config{Size: 2})
	a, b := n.meshes[0].Link(1), n.meshes[1].Link(0)
	h, p, q := &transport.Header{Len: 5000}, make([]byte, 5000), make([]byte, 5000)
	frame := func() {
		if ok, err := a.Send(h, p); !ok || err != nil {
			t.Fatalf("send: %v, %v", ok, err)
		}
		if _, full, err := b.Body(0, q); !full || err != nil {
			t.Fatalf("body: %v, %v", full, err)
		}
		b.Release(0)
	}
	for range sim.DefaultSlots {
		frame()
	}
	if got := testing.AllocsPerRun(100, frame); got != 0 {
		t.Errorf("a frame allocates %v times", got)
	}
}
