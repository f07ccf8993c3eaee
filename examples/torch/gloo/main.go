// Command gloo trains a model in PyTorch on data that processes in Go make, all of them ranks of one Gloo job. Rank 0 runs train.py;
// the others run this program, send batches and get the weights in the end. All ranks compare a checksum of each tensor.
//
// One command starts all ranks on this machine:
//
//	go run ./examples/torch/gloo -torch 2.6
//
// It needs a python3 with PyTorch. On Debian 12 apt-get install python3-torch brings version 1.13.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

//go:embed train.py
var script string

// The lengths of train.py.
const (
	features = 8
	batch    = 32
	steps    = 60
)

func main() {
	version := flag.String("torch", "1.13", "version of PyTorch")
	python := flag.String("python", "python3", "program that runs train.py")
	ranks := flag.Int("ranks", 3, "ranks of the job, all but the first in Go")
	flag.Parse()
	run := func() error { return launch(os.Stdout, *python, *version, *ranks) }
	if os.Getenv("RANK") != "" {
		run = func() error { return load(*version) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// launch starts all ranks, and waits for them. Each rank writes to out, beside the others.
func launch(out io.Writer, python, version string, ranks int) error {
	if ranks < 2 {
		return fmt.Errorf("%d ranks, there must be one in Go", ranks)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ended := make(chan error, ranks)
	for rank := range ranks {
		cmd := exec.Command(self, "-torch", version)
		if rank == 0 {
			cmd = exec.Command(python, "-c", script)
		}
		cmd.Env = append(os.Environ(), "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+strconv.Itoa(port), "RANK="+strconv.Itoa(rank),
			"WORLD_SIZE="+strconv.Itoa(ranks), "GLOO_SOCKET_IFNAME=lo", "USE_LIBUV=0")
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
		defer cmd.Process.Kill() // which does nothing to a rank that has ended
		go func() { ended <- cmd.Wait() }()
	}
	for range ranks {
		if err := <-ended; err != nil {
			return err
		}
	}
	return nil
}

// load is a rank in Go: it sends batches, and gets the weights.
func load(version string) (err error) {
	ctx := context.Background()
	g, err := pg.Init(ctx, pg.Config{Backends: "gloo", Torch: version})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	rng := rand.New(rand.NewPCG(1, uint64(g.Rank())))
	for step := range steps {
		if 1+step%(g.Size()-1) != g.Rank() {
			continue
		}
		if err := g.Send(ctx, colligo.Of(example(rng)), 0, step); err != nil {
			return err
		}
	}
	for _, p := range []struct {
		name string
		n    int
	}{{"weight", features}, {"bias", 1}} {
		v := make([]float32, p.n)
		if err := receive(ctx, g, v); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Printf("rank %d is in Go: %s %.2f, equal on all ranks\n", g.Rank(), p.name, v)
	}
	return g.Barrier(ctx)
}

// receive takes a tensor from rank 0, and compares this rank's checksum of it with every other rank's checksum.
func receive(ctx context.Context, g *pg.Group, v []float32) error {
	t := colligo.Of(v)
	if err := g.Broadcast(ctx, t, 0); err != nil {
		return err
	}
	own := sha256.Sum256(t.CPUBytes())
	all := make([]byte, len(own)*g.Size())
	if err := g.AllGatherIntoTensor(ctx, colligo.Of(all), colligo.Of(own[:])); err != nil {
		return err
	}
	for rank := range g.Size() {
		if !bytes.Equal(own[:], all[rank*len(own):(rank+1)*len(own)]) {
			return fmt.Errorf("rank %d has other bytes than rank %d", rank, g.Rank())
		}
	}
	return nil
}

// example is a batch whose values are 1·x1 + 2·x2 + … + 0.5.
func example(rng *rand.Rand) []float32 {
	var b []float32
	for range batch {
		y := float32(0.5)
		for i := range features {
			x := rng.Float32()*2 - 1
			b = append(b, x)
			y += float32(i+1) * x
		}
		b = append(b, y)
	}
	return b
}
