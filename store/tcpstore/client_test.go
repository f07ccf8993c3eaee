package tcpstore

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
	"github.com/colligo-go/colligo/store"
)

// TestOneConnection: calls one after another, waits included, share one connection; a wait that holds up others moves,
// and its connection serves later waits.
func TestOneConnection(t *testing.T) {
	s := serve(t, ServerOptions{})
	c := dial(t, s, ClientOptions{})
	ctx := t.Context()
	require.NoError(t, c.Set(ctx, "k", []byte("v")))
	_, err := c.Get(ctx, "k")
	require.NoError(t, err)
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.Wait(short, "nope"), store.ErrTimeout)
	require.Equal(t, 1, s.Clients())
	for round := range 3 {
		key := string(rune('a' + round))
		done := make(chan error, 1)
		go func() { done <- c.Wait(ctx, key) }()
		eventually(t, "waiting", func() bool { return s.table.Watches() == 1 })
		_, err := c.Add(ctx, "n", 1)
		require.NoError(t, err)
		require.NoError(t, c.Set(ctx, key, nil))
		require.NoError(t, <-done)
		require.Equal(t, 2, s.Clients())
	}
}

// TestReadYourWrites: a value that one goroutine set is what it gets, though others wait and work at the same time.
func TestReadYourWrites(t *testing.T) {
	c := dial(t, serve(t, ServerOptions{}), ClientOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() { waiting <- c.Wait(ctx, "never") }()
	for i := range 200 {
		want := string(rune('a' + i%26))
		require.NoError(t, c.Set(t.Context(), "k", []byte(want)))
		got, err := c.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	cancel()
	require.ErrorIs(t, <-waiting, context.Canceled)
}

// TestServerLost: calls under way and later ones name the address, and none hangs.
func TestServerLost(t *testing.T) {
	s, err := Listen(freeport.Address(t, "127.0.0.1"), ServerOptions{})
	require.NoError(t, err)
	defer s.Close()
	c := dial(t, s, ClientOptions{})
	c.SetTimeout(0)
	done := make(chan error, 2)
	go func() { done <- c.Wait(t.Context(), "a") }()
	go func() { _, err := c.QueuePop(t.Context(), "b", true); done <- err }()
	eventually(t, "waiting", func() bool { return s.table.Watches() == 2 })
	addr := s.Addr().String()
	require.NoError(t, s.Close())
	check := func(err error) {
		require.ErrorContains(t, err, "server "+addr+" is lost")
		require.ErrorContains(t, err, "Connection was likely closed. Did the remote server shutdown or crash?")
		require.NotErrorIs(t, err, store.ErrTimeout)
	}
	check(<-done)
	check(<-done)
	_, err = c.Add(t.Context(), "n", 1)
	check(err)

	// Another server at the address is another run's: the client does not go on there.
	other, err := Listen(addr, ServerOptions{})
	require.NoError(t, err)
	defer other.Close()
	check(c.Set(t.Context(), "k", nil))
}

// TestExchangeCut: a context that ends while a reply is due costs the connection, and the next call makes a new one.
func TestExchangeCut(t *testing.T) {
	s := newScript(t)
	c := s.connect()
	limited, pass := dueWhenTold(t)
	done := make(chan error, 1)
	go func() {
		_, err := c.Add(limited, "k", 1)
		done <- err
	}()
	s.expect("04 0200000000000000 2f6b 0100000000000000")
	pass()
	err := <-done
	require.ErrorIs(t, err, store.ErrTimeout)
	require.Regexp(t, "^tcpstore: wait timeout after [0-9]+ms, keys: /k$", err.Error()) // what was left when Add began
	require.NoError(t, s.nc.Close())
	go func() {
		n, err := c.Add(t.Context(), "k", 1)
		if err == nil && n != 2 {
			err = errors.New("the first reply answered the second request")
		}
		done <- err
	}()
	s.accept()
	s.expect("00 cef7853c 04 0200000000000000 2f6b 0100000000000000")
	s.reply("0200000000000000")
	require.NoError(t, <-done)
}

// TestCollectNotCut: a context that ends while a value is on its way costs nothing, for the value comes all the same.
func TestCollectNotCut(t *testing.T) {
	s := newScript(t)
	c := s.connect()
	c.first.patience = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		vals, err := c.MultiGet(ctx, []string{"k"})
		if err == nil && string(vals[0]) != "v" {
			err = errors.New("another value")
		}
		done <- err
	}()
	s.expect("06" + one + keyK)
	s.reply("00")
	s.expect("0a" + one + keyK)
	cancel()
	time.Sleep(20 * time.Millisecond)
	s.reply(valV)
	require.NoError(t, <-done)
	go func() { _, err := c.Add(t.Context(), "k", 1); done <- err }()
	s.expect("04" + keyK + one) // over the same connection
	s.reply(two)
	require.NoError(t, <-done)
}

// TestCollectLeft: a value that does not come holds its caller no longer than patience. Nor does it cost the connection, on which the next
// call waits for it.
func TestCollectLeft(t *testing.T) {
	s := newScript(t)
	c := s.connect()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := c.MultiGet(ctx, []string{"k"}); done <- err }()
	s.expect("06" + one + keyK)
	s.reply("00")
	s.expect("0a" + one + keyK)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	go func() { _, err := c.Add(t.Context(), "k", 1); done <- err }()
	s.quiet() // the server owes a value
	s.reply(valV)
	s.expect("04" + keyK + one) // over the same connection
	s.reply(two)
	require.NoError(t, <-done)
}

// TestSilentServer: a server that does not confirm the end of a wait holds neither that caller nor a later one beyond its limit. Once it
// confirms, the connection is as good as before.
func TestSilentServer(t *testing.T) {
	for name, yields := range map[string]bool{"the caller's end": false, "for another call": true} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			c := s.connect()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			waited, added := make(chan error, 1), make(chan error, 1)
			go func() { waited <- c.Wait(ctx, "k") }()
			s.expect("06" + one + keyK)
			if !yields {
				cancel()
			}
			short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer stop()
			go func() { _, err := c.Add(short, "k", 1); added <- err }()
			s.expect("0c")
			require.ErrorIs(t, <-added, store.ErrTimeout)
			cancel()
			require.ErrorIs(t, <-waited, context.Canceled)
			s.reply("01")
			go func() { _, err := c.Add(t.Context(), "k", 1); added <- err }()
			s.expect("04" + keyK + one)
			s.reply(two)
			require.NoError(t, <-added)
		})
	}
}

// TestSilentServerLost: what a server does wrong after a caller has left ends the client, as if a call had heard it.
func TestSilentServerLost(t *testing.T) {
	for name, wrong := range map[string]func(*script){
		"hung up":     func(s *script) { require.NoError(t, s.nc.Close()) },
		"wrong reply": func(s *script) { s.reply("07") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			c := s.connect()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- c.Wait(ctx, "k") }()
			s.expect("06" + one + keyK)
			cancel()
			s.expect("0c")
			require.ErrorIs(t, <-done, context.Canceled)
			wrong(s)
			_, err := c.Add(t.Context(), "k", 1)
			require.ErrorIs(t, err, ErrLost)
			require.ErrorContains(t, err, s.ln.Addr().String())
		})
	}
}

func TestDialRetries(t *testing.T) {
	addr := freeport.Address(t, "127.0.0.1")
	done := make(chan error, 1)
	go func() {
		c, err := Dial(t.Context(), addr, ClientOptions{ConnectTimeout: time.Minute})
		if err == nil {
			err = c.Close()
		}
		done <- err
	}()
	time.Sleep(50 * time.Millisecond)
	s, err := Listen(addr, ServerOptions{})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, <-done)
}

func TestDialGivesUp(t *testing.T) {
	t.Parallel()
	port := freeport.Port(t, "127.0.0.1")
	addr := net.JoinHostPort("127.0.0.1", port)
	err := patiently(t, "refused", func(limit time.Duration) error {
		_, err := Dial(t.Context(), addr, ClientOptions{ConnectTimeout: limit})
		return err
	})
	require.ErrorContains(t, err, "the client socket has timed out after ")
	require.ErrorContains(t, err, "while trying to connect to (127.0.0.1, "+port+")")

	_, err = Dial(t.Context(), "no.such.host.invalid:1", ClientOptions{ConnectTimeout: time.Second})
	require.ErrorIs(t, err, store.ErrTimeout, "an unknown name may become known")
	_, err = Dial(t.Context(), "no port", ClientOptions{ConnectTimeout: time.Minute})
	require.ErrorContains(t, err, "the client socket has failed to connect to any network address of no port")

	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the job was stopped")
	time.AfterFunc(30*time.Millisecond, func() { cancel(reason) })
	_, err = Dial(ctx, addr, ClientOptions{})
	require.ErrorIs(t, err, reason)
}

// TestOldServer hangs up on the ping, as a server before PyTorch 2.5 would.
func TestOldServer(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(nc, make([]byte, 10))
			_ = nc.Close()
		}
	}()
	_ = patiently(t, "NoPing", func(limit time.Duration) error {
		_, err := Dial(t.Context(), ln.Addr().String(), ClientOptions{ConnectTimeout: limit})
		return err
	})
}

func TestBackoff(t *testing.T) {
	var b backoff
	want := firstInterval
	for range 40 {
		got := b.next()
		require.GreaterOrEqual(t, got, want/2)
		require.LessOrEqual(t, got, min(want*3/2, lastInterval))
		want = min(want*3/2, lastInterval)
	}
	require.Equal(t, lastInterval, want)
}

func TestWaitForWorkers(t *testing.T) {
	t.Parallel()
	s := serve(t, ServerOptions{})
	done := make(chan error, 1)
	go func() {
		c, err := Dial(t.Context(), s.Addr().String(), ClientOptions{WorldSize: 3, WaitForWorkers: true})
		if err == nil {
			err = c.Close()
		}
		done <- err
	}()
	for range 2 {
		select {
		case err := <-done:
			require.FailNow(t, "returned early", "%v", err)
		case <-time.After(30 * time.Millisecond):
		}
		dial(t, s, ClientOptions{WorldSize: 3})
	}
	require.NoError(t, <-done)

	_ = patiently(t, "seconds waiting for clients. 2/9 clients joined", func(limit time.Duration) error {
		few := serve(t, ServerOptions{})
		dial(t, few, ClientOptions{WorldSize: 9})
		_, err := Dial(t.Context(), few.Addr().String(), ClientOptions{WorldSize: 9, WaitForWorkers: true, ConnectTimeout: limit})
		return err
	})
}

func TestClientLimits(t *testing.T) {
	c := dial(t, serve(t, ServerOptions{}), ClientOptions{})
	ctx := t.Context()
	long := strings.Repeat("k", store.MaxKey)
	require.ErrorContains(t, c.Set(ctx, long, nil), "of 8193 bytes exceeds 8192")
	require.ErrorContains(t, c.Append(ctx, "k", make([]byte, store.MaxValue+1)), "value of 8388609 bytes exceeds 8388608")
	require.ErrorContains(t, c.Wait(ctx, make([]string, store.MaxKeys+1)...), "131073 keys in one request exceed 131072")
	require.NoError(t, c.Set(ctx, long[1:], make([]byte, store.MaxValue)), "the limits themselves are allowed")
	require.NoError(t, c.Wait(ctx, long[1:]))
	many := make([]string, store.MaxKeys)
	require.NoError(t, c.Set(ctx, "", nil))
	require.NoError(t, c.Wait(ctx, many...))
}

// TestHostileServer answers with lengths and bytes that make no sense.
func TestHostileServer(t *testing.T) {
	for name, c := range map[string]struct {
		reply string
		call  func(ctx, *Client) error
		want  string
	}{
		"check": {"07", func(x ctx, c *Client) error { _, err := c.Check(x, "k"); return err }, "reply 7 to check"},
		"wait":  {"05", func(x ctx, c *Client) error { return c.Wait(x, "k") }, "reply 5 to wait"},
		"compare_set": {"ffffffffffffff7f",
			func(x ctx, c *Client) error { _, err := c.CompareSet(x, "k", nil, nil); return err }, "exceeds"},
		"list_keys": {"ffffffffffffffff",
			func(x ctx, c *Client) error { _, err := c.ListKeys(x); return err }, "reply of -1 keys"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			client := s.connect()
			s.reply(c.reply)
			err := c.call(t.Context(), client)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, s.ln.Addr().String())
		})
	}
}
