package pg_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store/tcpstore"
)

// BenchmarkNewGroup makes a group of all ranks, uses it once and closes it. The store is a TCP store with a client for
// each rank, as a job of processes has.
func BenchmarkNewGroup(b *testing.B) {
	for _, transport := range []string{"shm", "tcp"} {
		for _, size := range []int{2, 4, 8} {
			b.Run(fmt.Sprintf("transport=%s/ranks=%d", transport, size), func(b *testing.B) {
				eachRank(b, size, transport, func(g *pg.Group) error {
					ranks := g.Ranks()
					for range b.N {
						n, err := g.NewGroup(context.Background(), ranks)
						if err != nil {
							return err
						}
						if err := errors.Join(n.AllReduce(context.Background(), colligo.Of([]float32{1}), colligo.Sum), n.Close()); err != nil {
							return err
						}
					}
					return nil
				})
			})
		}
	}
}

// BenchmarkNewSubgroups makes all groups of two ranks that a group of eight can be cut into, and closes them.
func BenchmarkNewSubgroups(b *testing.B) {
	for _, transport := range []string{"shm", "tcp"} {
		b.Run("transport="+transport, func(b *testing.B) {
			eachRank(b, 8, transport, func(g *pg.Group) error {
				for range b.N {
					mine, _, err := g.NewSubgroups(context.Background(), 2, pg.GroupOptions{})
					if err := errors.Join(err, mine.Close()); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// eachRank forms a group in this process and times f on all ranks.
func eachRank(b *testing.B, size int, transport string, f func(g *pg.Group) error) {
	srv, err := tcpstore.Listen("127.0.0.1:0", tcpstore.ServerOptions{})
	require.NoError(b, err)
	defer func() { require.NoError(b, srv.Close()) }()
	_, port, err := net.SplitHostPort(srv.Addr().String())
	require.NoError(b, err)
	errs := make([]error, size)
	var formed, ended sync.WaitGroup
	formed.Add(size)
	start := make(chan struct{})
	for rank := range size {
		ended.Go(func() {
			s, err := tcpstore.Dial(context.Background(), net.JoinHostPort("127.0.0.1", port), tcpstore.ClientOptions{})
			if err != nil {
				panic(err)
			}
			g, err := pg.Init(context.Background(), pg.Config{Store: s, Rank: rank, Size: size, Transport: transport,
				Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				panic(err)
			}
			formed.Done()
			<-start
			errs[rank] = errors.Join(f(g), g.Barrier(context.Background()))
			errs[rank] = errors.Join(errs[rank], g.CloseAll(), s.Close())
		})
	}
	formed.Wait()
	b.ResetTimer()
	close(start)
	ended.Wait()
	require.NoError(b, errors.Join(errs...))
}
