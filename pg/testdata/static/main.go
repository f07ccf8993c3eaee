// Program static imports package pg and nothing else of this module; a test looks at the binary that comes of it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/colligo-go/colligo/pg"
)

func main() {
	g, err := pg.Init(context.Background(), pg.Config{})
	if err == nil {
		err = g.Barrier(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(g)
	if err := g.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
