package tcpstore

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/store/storetest"
)

// serve starts a server that lives as long as the test.
func serve(t testing.TB, opts ServerOptions) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0", opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// dial connects to s.
func dial(t testing.TB, s *Server, opts ClientOptions) *Client {
	t.Helper()
	return dialAddr(t, s.Addr().String(), opts)
}

func dialAddr(t testing.TB, addr string, opts ClientOptions) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Dial(ctx, addr, opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// eventually polls until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, time.Millisecond, what)
}

// due is a context whose deadline passes when the test says so.
type due struct {
	context.Context
	end  time.Time
	done chan struct{}
}

// dueWhenTold returns a context and the function that lets its deadline pass. A short deadline may pass before the call has begun.
func dueWhenTold(t testing.TB) (c context.Context, pass func()) {
	d := &due{t.Context(), time.Now().Add(time.Hour), make(chan struct{})}
	return d, func() { close(d.done) }
}

func (d *due) Deadline() (time.Time, bool) { return d.end, true }
func (d *due) Done() <-chan struct{}       { return d.done }

func (d *due) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// patiently dials with ever longer limits until the error of one that has passed says something. A busy machine may hold up the client, or
// what it dials, for as long as a short one.
func patiently(t testing.TB, says string, dial func(limit time.Duration) error) error {
	t.Helper()
	var err error
	for limit := time.Second; limit < time.Minute/2; limit *= 5 {
		if err = dial(limit); err == nil || strings.Contains(err.Error(), says) {
			break
		}
	}
	require.ErrorIs(t, err, store.ErrTimeout)
	require.ErrorContains(t, err, says)
	return err
}

func TestConformance(t *testing.T) {
	t.Parallel() // the suite waits more than it works
	storetest.Run(t, func(t *testing.T) store.Store {
		return dial(t, serve(t, ServerOptions{}), ClientOptions{})
	})
}

func TestConformancePrefix(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store {
		return store.NewPrefix("0/", dial(t, serve(t, ServerOptions{}), ClientOptions{}))
	})
}

// TestIPv6 serves the loopback address of IPv6, and both families on an address without a host.
func TestIPv6(t *testing.T) {
	s, err := Listen("[::1]:0", ServerOptions{})
	require.NoError(t, err)
	defer s.Close()
	c := dial(t, s, ClientOptions{})
	require.NoError(t, c.Set(t.Context(), "k", nil))

	both, err := Listen(":0", ServerOptions{})
	require.NoError(t, err)
	defer both.Close()
	_, port, err := net.SplitHostPort(both.Addr().String())
	require.NoError(t, err)
	for _, host := range []string{"::1", "127.0.0.1", "localhost"} {
		c := dialAddr(t, net.JoinHostPort(host, port), ClientOptions{})
		n, err := c.Add(t.Context(), "n", 1)
		require.NoError(t, err)
		require.Positive(t, n)
	}
}
