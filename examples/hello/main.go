// Hello is the smallest program: every rank contributes one number and prints the sum. Start it with a launcher, such as
//
//	go run ./cmd/colligo run -n 4 go run ./examples/hello
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

func main() {
	ctx := context.Background()
	g, err := pg.Init(ctx, pg.Config{})
	if err != nil {
		log.Fatal(err)
	}
	x := []float32{float32(g.Rank() + 1)}
	if err := g.AllReduce(ctx, colligo.Of(x), colligo.Sum); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("rank %d of %d: sum %v\n", g.Rank(), g.Size(), x)
	if err := g.Close(); err != nil {
		log.Fatal(err)
	}
}
