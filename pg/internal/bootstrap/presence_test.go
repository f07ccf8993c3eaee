package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/store/tcpstore"
)

// inTime repeats a try until one counts. A try does not count in which the machine held a rank up for longer than a limit allows.
func inTime(t *testing.T, try func() (counts bool)) {
	counts := false
	for i := 0; i < 10 && !counts; i++ {
		counts = try()
	}
	require.True(t, counts, "the machine has held up every try")
}

// saysSo has a rank give up, and reports whether it had the time to say so.
func saysSo(f *Formation, why error) bool {
	began := time.Now()
	f.GiveUp(why, whole)
	return time.Since(began) < giveUpLimit
}

// TestPresence ends the connections of ranks that have registered. One dies, one has given up, and one has been replaced by its next
// attempt. Only the first is lost.
func TestPresence(t *testing.T) {
	t.Parallel()
	inTime(t, func() bool { return presences(t) })
}

func presences(t *testing.T) (counts bool) {
	server, err := tcpstore.Listen("127.0.0.1:0", tcpstore.ServerOptions{Presence: presence()})
	require.NoError(t, err)
	defer server.Close()
	dial := func(rank int) (*Formation, *tcpstore.Client) {
		s, err := tcpstore.Dial(t.Context(), server.Addr().String(), tcpstore.ClientOptions{})
		require.NoError(t, err)
		all, _ := formations(t, s, 4)
		return all[rank], s
	}
	watcher, own := dial(0)
	defer own.Close()
	dead, deadAt := dial(1)
	leaves, leavesAt := dial(2)
	first, firstAt := dial(3)
	for _, f := range []*Formation{watcher, dead, leaves, first} {
		require.NoError(t, f.register(t.Context(), f.info()))
	}
	if !saysSo(leaves, errors.New("no memory")) || !saysSo(first, errors.New("once more")) {
		return false
	}
	again, againAt := dial(3)
	defer againAt.Close()
	require.NoError(t, again.register(t.Context(), again.info()))
	for _, s := range []*tcpstore.Client{deadAt, leavesAt, firstAt} {
		require.NoError(t, s.Close())
	}
	require.Eventually(t, func() bool { left, err := watcher.whoGaveUp(t.Context()); return err != nil || len(left) == 2 },
		time.Minute, 10*time.Millisecond)
	time.Sleep(2 * giveUpLimit) // for whatever else would follow
	left, err := watcher.whoGaveUp(t.Context())
	require.NoError(t, err)
	require.Len(t, left, 2)
	require.ErrorContains(t, left[0], "rank 2 (process")
	require.ErrorContains(t, left[0], "has given up: no memory")
	require.ErrorContains(t, left[1], "is lost: its connection with the store has ended")
	require.ErrorIs(t, left[1], colligo.ErrPeerLost)
	require.Equal(t, 1, left[1].Rank)
	return true
}

// TestLingerInTime has a rank that stands still keep its connection with the store. Rank 0 keeps the store up for it, but for less than
// Grace after the limit.
func TestLingerInTime(t *testing.T) {
	t.Parallel()
	inTime(t, func() bool { return lingersInTime(t) })
}

func lingersInTime(t *testing.T) (counts bool) {
	server, err := tcpstore.Listen("127.0.0.1:0", tcpstore.ServerOptions{})
	require.NoError(t, err)
	defer server.Close()
	var own, other *tcpstore.Client
	for _, s := range []**tcpstore.Client{&own, &other} {
		*s, err = tcpstore.Dial(t.Context(), server.Addr().String(), tcpstore.ClientOptions{})
		require.NoError(t, err)
		defer (*s).Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	due, _ := ctx.Deadline()
	(&Job{server: server, store: own}).Linger(ctx, "0", 2, fmt.Errorf("rank 1 has not come: %w", colligo.ErrTimeout))
	took := time.Since(due)
	require.GreaterOrEqual(t, took, Grace/2)
	return took < lingering
}

// TestGiveUpArrives has a rank give up over a slow connection. Its next attempt, over a fast one, may register at once.
func TestGiveUpArrives(t *testing.T) {
	t.Parallel()
	inTime(t, func() bool { return arrives(t) })
}

func arrives(t *testing.T) (counts bool) {
	server, err := tcpstore.Listen("127.0.0.1:0", tcpstore.ServerOptions{})
	require.NoError(t, err)
	defer server.Close()
	dial := func(addr string) *Formation {
		s, err := tcpstore.Dial(t.Context(), addr, tcpstore.ClientOptions{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		all, _ := formations(t, s, 2)
		return all[1]
	}
	first := dial(slowWay(t, server.Addr().String(), 20*time.Millisecond))
	require.NoError(t, first.register(t.Context(), first.info()))
	if !saysSo(first, errors.New("once more")) {
		return false
	}
	again := dial(server.Addr().String())
	require.NoError(t, again.register(t.Context(), again.info()))
	return true
}

// slowWay returns an address whose one connection leads to another address. Each request arrives there after a delay.
func slowWay(t *testing.T, to string, delay time.Duration) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var both sync.WaitGroup
	t.Cleanup(both.Wait)
	both.Go(func() {
		near, err := l.Accept()
		_ = l.Close()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", to)
		if err != nil {
			_ = near.Close()
			return
		}
		both.Go(func() {
			_, _ = io.Copy(near, far) // until the other direction has ended
			_ = near.Close()
		})
		for b := make([]byte, 1<<10); ; {
			n, err := near.Read(b)
			if err != nil {
				break
			}
			time.Sleep(delay)
			if _, err := far.Write(b[:n]); err != nil {
				break
			}
		}
		_ = far.Close()
	})
	return l.Addr().String()
}

// TestLingerForTheSilent has a rank be without a connection for a while, before it has looked why the group does not form. Rank 0 keeps the
// store up until it comes back. A try counts in which the machine let this test go on in time.
func TestLingerForTheSilent(t *testing.T) {
	t.Parallel()
	for _, why := range []error{errors.New("no memory"), fmt.Errorf("rank 3 has not come: %w", colligo.ErrTimeout)} {
		inTime(t, func() bool { return lingers(t, why) })
	}
}

func lingers(t *testing.T, why error) (counts bool) {
	server, err := tcpstore.Listen("127.0.0.1:0", tcpstore.ServerOptions{})
	require.NoError(t, err)
	defer server.Close()
	dial := func() (*tcpstore.Client, []*Formation) {
		s, err := tcpstore.Dial(t.Context(), server.Addr().String(), tcpstore.ClientOptions{})
		require.NoError(t, err)
		all, _ := formations(t, s, 2)
		return s, all
	}
	own, mine := dial()
	defer own.Close()
	other, theirs := dial()
	require.NoError(t, mine[0].register(t.Context(), mine[0].info()))
	require.NoError(t, theirs[1].register(t.Context(), theirs[1].info()))
	if !saysSo(mine[0], why) {
		return false
	}
	over := make(chan struct{})
	gone := time.Now()
	require.NoError(t, other.Close())
	go func() {
		defer close(over)
		(&Job{server: server, store: own}).Linger(t.Context(), "0", 2, why)
	}()
	time.Sleep(2 * away)
	select {
	case <-over:
		require.GreaterOrEqual(t, time.Since(gone), silent)
		return false
	default:
	}
	other, theirs = dial()
	left, err := theirs[1].whoGaveUp(t.Context())
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.NoError(t, other.Close())
	<-over
	return true
}
