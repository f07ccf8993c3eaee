package flight_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

// A dump is written in PyTorch's format and read back: as pickle, which PyTorch's analyzer reads, or as JSON.
func Example() {
	ctx := context.Background()
	groups, err := pg.InProcess(ctx, 1, pg.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	g := groups[0]
	if err := g.AllReduce(ctx, colligo.Of(make([]float32, 6), 2, 3), colligo.Sum); err != nil {
		fmt.Println(err)
	}
	var file bytes.Buffer
	err = g.Dump(flight.DumpOptions{Entries: true, Frames: true}).WritePickle(&file)
	if err := errors.Join(err, g.Close()); err != nil {
		fmt.Println(err)
	}
	d, err := flight.Read(&file)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range d.Entries {
		fmt.Println(e.Seq, e.Name, e.InSizes, e.State, "called in", path.Base(e.Frames[0].Name))
	}
	// Output: 1 nccl:all_reduce [[2 3]] completed called in flight_test.Example
}
