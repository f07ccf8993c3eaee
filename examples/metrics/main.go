// Metrics is a job that Prometheus can watch and that a browser can ask what it does. Each rank serves pages on a port of its own.
//
//	go run ./cmd/colligo run -n 2 go run ./examples/metrics -port 8080
//	curl http://127.0.0.1:8080/debug/colligo/metrics
//
// The page http://127.0.0.1:8081/debug/colligo/waiting shows who waits for whom, asked of rank 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/debug"
)

func main() {
	port := flag.Int("port", 8080, "`port` of rank 0's pages; rank 1 has the next, and so on")
	steps := flag.Int("steps", 60, "`count` of steps, a second each")
	flag.Parse()
	ctx := context.Background()
	g, err := pg.Init(ctx, pg.Config{})
	if err != nil {
		log.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", *port+g.Rank()) // whoever reaches the port reads all pages
	err = run(ctx, g, address, func() error { return train(ctx, g, *steps, time.Second) })
	if err := errors.Join(err, g.Close()); err != nil {
		log.Fatal(err)
	}
}

// run serves the pages while work runs.
func run(ctx context.Context, g *pg.Group, address string, work func() error) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	pages := http.NewServeMux()
	pages.Handle("/debug/colligo/", debug.Handler(g))
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	err = errors.Join(work(), server.Close())
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}

func train(ctx context.Context, g *pg.Group, steps int, pause time.Duration) error {
	gradient := make([]float32, 1<<16)
	for range steps {
		if err := g.AllReduce(ctx, colligo.Of(gradient), colligo.Avg); err != nil {
			return err
		}
		time.Sleep(pause)
	}
	return nil
}
