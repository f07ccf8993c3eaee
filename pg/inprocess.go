package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/sim"
)

// InProcess forms a group whose ranks all live in this process, and returns each rank's handle. Every rank needs a
// goroutine of its own. It serves tests and examples; package pgtest has more for the former. The ranks know one another: what
// Config says of where they meet, of rank and size, and of the transport is not used.
func InProcess(ctx context.Context, size int, c Config) ([]*Group, error) {
	if size < 1 || size > transport.MaxSize {
		return nil, fmt.Errorf("pg: a group of %d ranks: from 1 to %d", size, transport.MaxSize)
	}
	net := sim.New(sim.Config{Size: size})
	c.Store, c.Size = store.NewHash(), size
	if c.Recorder.DumpOnError == 0 {
		c.Recorder.DumpOnError = Off // who tests failures does not want a file of each
	}
	return each(size, func(rank int) (*Group, error) {
		c := c
		c.Rank = rank
		c.Open = func(ctx context.Context, tc *transport.Config) (transport.Mesh, error) {
			return net.OpenAs(ctx, rank, tc)
		}
		return Init(ctx, c)
	})
}

// each calls f for all ranks at once. If one fails, all are closed.
func each(size int, f func(rank int) (*Group, error)) ([]*Group, error) {
	groups, errs := make([]*Group, size), make([]error, size)
	var all sync.WaitGroup
	for rank := range size {
		all.Go(func() { groups[rank], errs[rank] = f(rank) })
	}
	all.Wait()
	err := errors.Join(errs...)
	if err == nil {
		return groups, nil
	}
	for _, g := range groups {
		if g != nil {
			err = errors.Join(err, g.Close())
		}
	}
	return nil, err
}
