// Torchrun is a program that PyTorch's launcher starts. Its ranks form a group from the environment that torchrun sets, and add a
// tensor up in every step. When torchrun restarts the job, they form again. The script run.sh builds it and starts jobs:
//
//	examples/torch/torchrun/run.sh go       # all ranks in Go
//	examples/torch/torchrun/run.sh mixed    # even ranks in Python, odd ranks in Go, over Gloo
//
// With -kill a rank ends itself by SIGKILL in the first attempt, and torchrun starts all ranks a second time.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

func main() {
	torch := flag.String("torch", "", "`version` of PyTorch, if ranks of this job are PyTorch's")
	steps := flag.Int("steps", 20, "all_reduces of the job")
	kill := flag.Int("kill", -1, "`rank` that is killed half-way in the first attempt")
	flag.Parse()
	if err := run(context.Background(), *torch, *steps, *kill); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, torch string, steps, kill int) error {
	c := pg.Config{} // a group of colligo's own
	if torch != "" {
		c = pg.Config{Backends: "gloo", Torch: torch}
	}
	g, err := pg.Init(ctx, c)
	if err != nil {
		return err
	}
	attempt := os.Getenv("TORCHELASTIC_RESTART_COUNT")
	x := []float32{float32(g.Rank() + 1)}
	for step := range steps {
		if step == steps/2 && attempt == "0" && kill == g.Rank() {
			fmt.Printf("rank %d is killed in step %d\n", g.Rank(), step)
			p, err := os.FindProcess(os.Getpid())
			if err != nil {
				return err
			}
			return errors.Join(p.Kill(), errors.New("still alive"))
		}
		x[0] = float32(g.Rank() + 1 + step)
		if err := g.AllReduce(ctx, colligo.Of(x), colligo.Sum); err != nil {
			return errors.Join(err, g.Close())
		}
	}
	fmt.Printf("rank %d of %d is in Go: attempt %s, last sum %v\n", g.Rank(), g.Size(), attempt, x[0])
	return g.Close()
}
