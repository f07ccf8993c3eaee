package peer

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
)

// The tests of bad input on a simulated machine, on devices.

func TestGPURefusals(t *testing.T) {
	d, n := gpus(t)
	onRanks(t, d, 2, n, simHalf, Options{}, func(r *rank) error {
		return first(r.refusals(n), func() error { return r.allReduce(trial{dtype: colligo.Float32, op: colligo.Sum, count: 100}) })
	})
}

func TestGPUMisplaced(t *testing.T) {
	d, n := gpus(t)
	var peer func() cuda.Pointer
	if n > 1 {
		thread, err := contextsOf(t)[0].Enter()
		if err != nil {
			t.Fatal(err)
		}
		defer thread.Leave()
		at, err := thread.Alloc(4096)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := thread.Free(at); err != nil {
				t.Error(err)
			}
		}()
		peer = func() cuda.Pointer { return at }
	}
	for _, p := range badAddresses(peer) {
		t.Run(p.name, func(t *testing.T) {
			onRanks(t, d, 2, n, simHalf, Options{}, func(r *rank) error { return r.misplaced(p) })
		})
	}
}

func contextsOf(t *testing.T) []*cuda.Device {
	all, err := contexts()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestGPUUnopened(t *testing.T) {
	d, n := gpus(t)
	for _, c := range brokenDrivers() {
		if c.name == "no P2P" && n == 1 {
			continue // ranks on one device need none
		}
		t.Run(c.name, func(t *testing.T) { onBroken(t, d, n, simHalf, c) })
	}
}

// TestGPUOtherMessage receives something else than was sent.
func TestGPUOtherMessage(t *testing.T) {
	d, n := gpus(t)
	onRanks(t, d, 2, n, simHalf, Options{}, func(r *rank) error { return r.otherMessage(otherMessages()[0]) })
}

// TestGPUMissingRank leaves one rank out, by the algorithms in which kernels wait and in which streams do.
func TestGPUMissingRank(t *testing.T) {
	d, devices := gpus(t)
	for _, algorithm := range []Algorithm{LL, Tiles, CopyRing, Fused} {
		t.Run(string(algorithm), func(t *testing.T) {
			o, n := taking(t, algorithm, 2, 50_000)
			o.Timeout = time.Second
			onRanks(t, d, 2, devices, simHalf, o, func(r *rank) error { return r.missing(n) })
		})
	}
}

// TestGPUCaptureFirst captures the first operation of a group.
func TestGPUCaptureFirst(t *testing.T) {
	d, n := gpus(t)
	onRanks(t, d, 2, n, simHalf, Options{}, func(r *rank) error { return r.capturedFirst(3000) })
}

// TestGPUKilled ends one of the processes that reduce. The others hear that it is lost, and end.
func TestGPUKilled(t *testing.T) {
	_, n := gpus(t)
	size := max(min(n, 4), 2)
	victim := size - 1
	ready, done := make(chan *exec.Cmd, 1), make(chan error, size)
	for i, c := range children(t, size, "-peer.loop=true") {
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		c.Stderr = c.Stdout
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			text := listen(out, func() {
				if i == victim {
					ready <- c
				}
			})
			err := c.Wait()
			if i == victim {
				err = nil
			} else if err != nil {
				err = fmt.Errorf("rank %d: %w\n%s", i, err, text)
			} else if !strings.Contains(text, fmt.Sprintf("lost rank %d", victim)) {
				err = fmt.Errorf("rank %d lost nobody:\n%s", i, text)
			}
			done <- err
		}()
	}
	select {
	case c := <-ready:
		if err := c.Process.Kill(); err != nil {
			t.Error(err)
		}
	case err := <-done:
		t.Fatal("before the kill:", err)
	}
	for range size {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// listen reads a child's output to its end, and calls begun when it says that it has begun.
func listen(from io.Reader, begun func()) string {
	var all strings.Builder
	for s := bufio.NewScanner(from); s.Scan(); {
		if strings.Contains(s.Text(), loops) {
			begun()
		}
		fmt.Fprintln(&all, s.Text())
	}
	return all.String()
}

const loops = "reduces until a rank is lost"
