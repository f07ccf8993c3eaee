// Weights moves the weights of a PyTorch model to services in Go, round after round, as training goes on. Rank 0 of the job runs
// send.py. It broadcasts a header in the form of .safetensors files, the tensors in pieces, and a checksum beside each tensor. The
// other ranks run this program. It checks every tensor, prints a table, and may write files and serve them. It holds two pieces, and
// never the model.
//
// One command starts all ranks on this machine:
//
//	go run ./examples/torch/weights
//	go run ./examples/torch/weights -mib 1024 -rounds 2 -out /tmp/weights -serve 127.0.0.1:8080
//
// It needs a python3 with PyTorch. On Debian 12 apt-get install python3-torch brings version 1.13, at /usr/bin/python3. With -backend
// cuda:nccl the bytes travel from GPU to GPU, which needs PyTorch 2.8 or later on ranks with a GPU each.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"

	"github.com/colligo-go/colligo/pg"
)

//go:embed send.py
var script string

// options are the flags.
type options struct {
	backend, torch, python   string
	ranks, mib, rounds, part int
	out, serve               string
}

func main() {
	var o options
	flag.StringVar(&o.backend, "backend", "gloo", "`backend` that carries the weights: gloo or cuda:nccl")
	flag.StringVar(&o.torch, "torch", "", "`version` of PyTorch; without it, python is asked")
	flag.StringVar(&o.python, "python", "python3", "`program` that runs send.py")
	flag.IntVar(&o.ranks, "ranks", 2, "ranks of the job, all but the first in Go")
	flag.IntVar(&o.mib, "mib", 64, "size of the model in `MiB`")
	flag.IntVar(&o.rounds, "rounds", 1, "how often the weights are sent")
	flag.IntVar(&o.part, "piece", 16<<20, "most `bytes` that are sent at once")
	flag.StringVar(&o.out, "out", "", "`folder` for a file rankN.safetensors of each rank in Go")
	flag.StringVar(&o.serve, "serve", "", "`address` at which rank 1 serves the table, and its file, until it is interrupted")
	flag.Parse()
	run := launch
	if os.Getenv("RANK") != "" {
		run = (*options).rank
	}
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// rank is the life of a rank in Go.
func (o *options) rank() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := &service{dir: o.out, log: os.Stdout}
	served := make(chan error, 1)
	if o.serve != "" && os.Getenv("RANK") == "1" {
		l, err := net.Listen("tcp", o.serve)
		if err != nil {
			return err
		}
		go func() { served <- s.serve(ctx, l) }()
	} else {
		served <- nil
	}
	if err := o.receive(ctx, s); err != nil {
		return err
	}
	return <-served
}

// receive is a rank until its job ends.
func (o *options) receive(ctx context.Context, s *service) (err error) {
	c := pg.Config{Backends: o.backend, Torch: o.torch}
	if o.backend == "gloo" {
		g, err := pg.Init(ctx, c)
		if err != nil {
			return err
		}
		return errors.Join(s.run(ctx, onCPU{g}, g.Rank()), g.CloseAll())
	}
	return overNCCL(ctx, c, func(ctx context.Context, m mover, rank int) error { return s.run(ctx, m, rank) })
}

// launch starts all ranks, and waits for them.
func launch(o *options) error {
	if o.ranks < 2 {
		return fmt.Errorf("%d ranks, there must be one in Go", o.ranks)
	}
	if o.torch == "" {
		version, err := exec.Command(o.python, "-c", "import torch; print(torch.__version__)").Output()
		if err != nil {
			return fmt.Errorf("%s has no PyTorch: %w", o.python, err)
		}
		part := strings.SplitN(strings.TrimSpace(string(version)), ".", 3) // such as 2.11.0+cu130
		o.torch = strings.Join(part[:min(len(part), 2)], ".")
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt) // the ranks get them too, and end
	ended := make(chan error, o.ranks)
	for rank := range o.ranks {
		cmd := exec.Command(self, "-backend", o.backend, "-torch", o.torch, "-out", o.out, "-serve", o.serve)
		if rank == 0 {
			cmd = exec.Command(o.python, "-c", script, "send", o.backend, strconv.Itoa(o.mib), strconv.Itoa(o.rounds), strconv.Itoa(o.part))
		}
		cmd.Env = append(os.Environ(), "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+strconv.Itoa(port), "RANK="+strconv.Itoa(rank),
			"WORLD_SIZE="+strconv.Itoa(o.ranks), "LOCAL_RANK="+strconv.Itoa(rank), "LOCAL_WORLD_SIZE="+strconv.Itoa(o.ranks),
			"GLOO_SOCKET_IFNAME=lo", "USE_LIBUV=0")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
		defer cmd.Process.Kill() // which does nothing to a rank that has ended
		go func() { ended <- cmd.Wait() }()
	}
	for range o.ranks {
		if err := <-ended; err != nil {
			return err
		}
	}
	return nil
}

// freePort returns a port of this host that nothing listens at.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
