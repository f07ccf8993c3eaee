// Gpu sums a tensor on one GPU for each rank. Start it with a launcher, such as
//
//	go run ./cmd/colligo run -n 2 go run ./examples/gpu
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"unsafe"

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
	const n = 1 << 20
	x, err := t.Alloc(4 * n)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.Free(x)) }()
	result, err := t.AllocHost(4) // pinned memory
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.FreeHost(result)) }()
	stream, err := t.NewStream(0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, g.Close(), t.DestroyStream(stream)) }() // in this order: a group uses its streams till its end
	mine := float32(g.Rank() + 1)
	err = errors.Join(
		t.Set32(x, *(*uint32)(unsafe.Pointer(&mine)), n, stream),
		g.AllReduce(peer.OnStream(ctx, stream), colligo.OnDevice(device.Place(), uintptr(x), n, colligo.Float32), colligo.Sum),
		t.Copy(result.Device, x, 4, stream), // behind the sum, for it is on the same stream
		t.Synchronize(stream))
	return *(*float32)(unsafe.Pointer(&result.Bytes[0])), err
}
