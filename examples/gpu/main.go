// Gpu sums a tensor on one GPU for each rank. Start it with a launcher, such as
//
//	go run ./cmd/colligo run -n 2 go run ./examples/gpu
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
)

func main() {
	driver, err := cuda.Open()
	if err != nil {
		log.Fatal(err)
	}
	local, err := pg.LocalRank() // of the launcher: the GPU with this number is this rank's
	if err != nil {
		log.Fatal(err)
	}
	device, err := driver.Device(local)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	g, err := pg.Init(ctx, pg.Config{Device: device.Place()})
	if err != nil {
		log.Fatal(err)
	}
	total, err := sum(ctx, g, device)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("rank %d of %d on %v: sum %v\n", g.Rank(), g.Size(), device, total)
}

// sum has each rank fill a tensor with its number plus one, adds the tensors up, and returns an element. It closes the group.
func sum(ctx context.Context, g *pg.Group, device *cuda.Device) (total float32, err error) {
	t, err := device.Enter() // the goroutine stays on one thread until Leave
	if err != nil {
		return 0, err
	}
	defer t.Leave()
	stream, err := t.NewStream(0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.DestroyStream(stream)) }()
	x, err := cuda.ArrayOf(t, slices.Repeat([]float32{float32(g.Rank() + 1)}, 1<<20), stream)
	if err != nil {
		return 0, errors.Join(err, g.Close())
	}
	defer func() { err = errors.Join(err, g.Close(), x.Free(t)) }() // in this order: a group uses memory and streams till its end
	result := make([]float32, 1)
	err = errors.Join(g.AllReduce(peer.OnStream(ctx, stream), x.Tensor(), colligo.Sum), x.Read(t, result, stream))
	return result[0], err
}
