package shm

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/transporttest"
)

// One rank of three, which are linked, gives up while the others wait for a fourth: they hear of it at once.
func TestGivingUpIsHeard(t *testing.T) {
	t.Run("first", func(t *testing.T) { open(t, 2, nil) }) // what the runtime makes at first use
	before := held(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	giveUp, stop := context.WithCancel(ctx)
	r := transporttest.NewRendezvous()
	errs := make([]error, 3)
	var wg, links sync.WaitGroup
	links.Add(len(errs) * (len(errs) - 1)) // each rank with each other
	for rank := range errs {
		with := ctx
		if rank == 1 {
			with = giveUp
		}
		wg.Go(func() {
			_, errs[rank] = Open(with, &transport.Config{Rank: rank, Size: 4, Lanes: 1, Rendezvous: r,
				Events: transport.Events{Linked: func(int) { links.Done() }}})
		})
	}
	links.Wait()
	stop()
	start := time.Now()
	wg.Wait()
	require.Less(t, time.Since(start), limit/2)
	require.ErrorIs(t, errs[1], context.Canceled)
	for _, rank := range []int{0, 2} {
		require.ErrorIs(t, errs[rank], transport.ErrLost)
		require.ErrorContains(t, errs[rank], "gave up: ")
		require.ErrorContains(t, errs[rank], "is not linked with rank 3: context canceled")
		require.NotContains(t, errs[rank].Error(), "died")
	}
	settled(t, before)
}

// A peer dies when it is linked with this rank, which still waits for another.
func TestDeathWhileFormingIsHeard(t *testing.T) {
	t.Run("first", func(t *testing.T) { open(t, 2, nil) })
	before := held(t)
	t.Run("death", dieForming)
	settled(t, before)
}

func dieForming(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := transporttest.NewRendezvous()
	opened := make(chan error, 1)
	lost := make(chan error, 1)
	go func() {
		_, err := Open(ctx, &transport.Config{Rank: 0, Size: 3, Lanes: 1, Rendezvous: r,
			Events: transport.Events{Lost: func(_ int, err error) { lost <- err }}})
		opened <- err
	}()
	require.NoError(t, linkAs(t, ctx, r, 1, 0).Close())
	select {
	case err := <-opened:
		require.ErrorIs(t, err, transport.ErrLost)
		require.ErrorContains(t, err, "rank 0 of 3 is not linked with rank ")
		require.ErrorContains(t, err, "rank 1: while the group was forming: peer lost: connection closed without goodbye")
		require.ErrorIs(t, <-lost, transport.ErrLost)
	case <-time.After(limit / 2):
		require.Fail(t, "the death was not heard")
	}
}

// A peer that has met all others may be done and gone before they have met one another.
func TestGoodbyeWhileForming(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := transporttest.NewRendezvous()
	left := make(chan error, 1)
	opened := make(chan error, 1)
	meshes := make([]transport.Mesh, 2)
	start := func(rank int, lost func(int, error)) {
		go func() {
			var err error
			meshes[rank], err = Open(ctx, &transport.Config{Rank: rank, Size: 3, Lanes: 1, Rendezvous: r,
				Events: transport.Events{Lost: lost}})
			opened <- err
		}()
	}
	start(0, func(_ int, err error) { left <- err })
	conn := linkAs(t, ctx, r, 2, 0)
	_, err := conn.Write([]byte{2, 0, 0, 0, 0}) // goodbye
	require.NoError(t, err)
	require.ErrorIs(t, <-left, transport.ErrGoodbye)
	start(1, nil)
	defer linkAs(t, ctx, r, 2, 1).Close()
	require.NoError(t, <-opened)
	require.NoError(t, <-opened)
	_, err = meshes[0].Link(2).Head(0)
	require.ErrorIs(t, err, transport.ErrGoodbye)
	for _, m := range meshes {
		require.NoError(t, m.Close())
	}
}

// linkAs plays a rank of three that links with a peer, and returns the connection.
func linkAs(t *testing.T, ctx context.Context, r transport.Rendezvous, rank, peer int) *net.UnixConn {
	c := &transport.Config{Rank: rank, Size: 3, Lanes: 1, Rendezvous: r}
	l, err := newLayout(c)
	require.NoError(t, err)
	player := meeting{m: &mesh{c: c}}
	conn, err := player.connect(ctx, peer)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, transport.Greet(ctx, conn, c, peer, transport.PurposeControl))
	_, fd, err := swap(ctx, conn, &hello{layout: l}, memory(t, l.segment(), seals))
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	return conn
}
