// Torch checks that the flight recorder's dumps and those of PyTorch can be read on both sides. It is a job of two ranks or
// more. It calls every kind of collective and message on the CPU and leaves its dumps in a folder:
//
//	go run ./cmd/colligo run -n 2 go run ./examples/torch -dir /tmp/dumps
//	go run ./cmd/colligo trace /tmp/dumps
//	torchfrtrace -p colligo_rank_ /tmp/dumps
//
// The last line is PyTorch's analyzer (python3 -m torch.distributed.flight_recorder.fr_trace), which has nothing to say where all
// collectives match. With -skip the last rank leaves the last call out, and both name it.
//
// The script check.sh runs all of this, and then the other way round: colligo trace reads the dumps of job.py, a job of
// PyTorch's. That job goes by NCCL on two GPUs and else by Gloo. It needs PyTorch 2.11 or later.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"path/filepath"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

func main() {
	dir := flag.String("dir", ".", "`folder` for the dumps")
	skip := flag.Bool("skip", false, "let the last rank leave the last call out, in which the others then wait")
	flag.Parse()
	g, err := pg.Init(context.Background(), pg.Config{})
	if err != nil {
		log.Fatal(err)
	}
	err = job(g, *skip)
	path, dumpErr := g.Dump(flight.DumpOptions{Entries: true, Frames: true}).WriteFile(filepath.Join(*dir, "colligo_rank_"), g.Rank())
	if dumpErr != nil {
		log.Fatal(dumpErr)
	}
	fmt.Println(path)
	if err := g.Close(); err != nil {
		log.Print(err)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// job calls what there is, in the default group, and messages in one of two ranks.
func job(g *pg.Group, skip bool) error {
	ctx := context.Background()
	two, err := g.NewGroup(ctx, []int{0, 1})
	if err != nil {
		return err
	}
	for range 3 {
		if err := collectives(ctx, g); err != nil {
			return err
		}
	}
	if two.IsMember() {
		if err := messages(ctx, two); err != nil {
			return err
		}
	}
	if skip {
		return disagree(ctx, g)
	}
	return g.Barrier(ctx)
}

func collectives(ctx context.Context, g *pg.Group) error {
	n := g.Size()
	one, all := colligo.Of(make([]float32, 6), 2, 3), colligo.Of(make([]float32, 6*n), n, 6)
	halves := colligo.FromBits(make([]uint16, 8), colligo.BFloat16)
	var list []colligo.Tensor
	for range n {
		list = append(list, colligo.Of(make([]int64, 4)))
	}
	root := list
	if g.Rank() != 0 {
		root = nil
	}
	for _, call := range []func() error{
		func() error { return g.AllReduce(ctx, one, colligo.Sum) },
		func() error { return g.Broadcast(ctx, halves, 0) },
		func() error { return g.Reduce(ctx, one, 0, colligo.Max) },
		func() error { return g.AllGatherIntoTensor(ctx, all, one) },
		func() error { return g.AllGather(ctx, list, list[0].Slice(0, 4)) },
		func() error { return g.ReduceScatterTensor(ctx, one, all, colligo.Sum) },
		func() error { return g.Gather(ctx, root, colligo.Of(make([]int64, 4)), 0) },
		func() error { return g.Scatter(ctx, colligo.Of(make([]int64, 4)), root, 0) },
		func() error {
			return g.AllToAllSingle(ctx, all, colligo.Of(make([]float32, 6*n), n, 6), nil, nil)
		},
		func() error { return g.Barrier(ctx) },
	} {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

// messages passes a message there and back.
func messages(ctx context.Context, g *pg.Group) error {
	t := colligo.Of(make([]uint8, 100))
	if g.Rank() == 0 {
		if err := g.Send(ctx, t, 1, 0); err != nil {
			return err
		}
		return g.Recv(ctx, t, 1, 0)
	}
	if err := g.Recv(ctx, t, 0, 0); err != nil {
		return err
	}
	return g.Send(ctx, t, 0, 0)
}

// disagree lets the last rank stay away from a call, in which the others wait while the dumps are written.
func disagree(ctx context.Context, g *pg.Group) error {
	if g.Rank() == g.Size()-1 {
		return nil
	}
	g.AllReduceAsync(ctx, colligo.Of(make([]float32, 6)), colligo.Sum)
	return nil
}
