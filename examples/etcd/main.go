// Etcd is a job whose ranks meet in etcd, through a store of the program's own. The store is five methods on etcd's JSON gateway.
// Any key-value service with a compare-and-swap would do. Rank 0 of two is started by
//
//	go run ./examples/etcd -etcd http://127.0.0.1:2379 -job today -size 2 -rank 0
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
)

func main() {
	address := flag.String("etcd", "http://127.0.0.1:2379", "`URL` of etcd")
	job := flag.String("job", "job", "`name` that this job alone has")
	rank := flag.Int("rank", 0, "`number` of this process")
	size := flag.Int("size", 1, "`processes` of the job")
	flag.Parse()
	if err := run(context.Background(), &etcd{address: *address, prefix: *job + "/"}, *rank, *size, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, core store.Core, rank, size int, out io.Writer) error {
	s := store.NewDerived(core) // a whole store of the five methods
	defer s.Close()
	g, err := pg.Init(ctx, pg.Config{Store: s, Rank: rank, Size: size})
	if err != nil {
		return err
	}
	x := []float32{float32(g.Rank() + 1)}
	err = g.AllReduce(ctx, colligo.Of(x), colligo.Sum)
	if err := errors.Join(err, g.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "rank %d of %d: sum %v\n", g.Rank(), g.Size(), x)
	return err
}
