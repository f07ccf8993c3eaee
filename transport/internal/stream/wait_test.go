package stream

import (
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// connected returns the two ends of a TCP connection.
func connected(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	near, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	far, err = l.Accept()
	require.NoError(t, err)
	return near, far
}

// TestManyBuffers reads and writes more buffers than fit into one call, some of them empty.
func TestManyBuffers(t *testing.T) {
	near, far := connected(t)
	streams, w, err := Open([]net.Conn{near, far})
	require.NoError(t, err)
	defer w.Close()
	var sent, got []byte
	var out, in [][]byte
	for i := range 12 {
		b := make([]byte, i%4)
		for j := range b {
			b[j] = byte(16*i + j)
		}
		sent = append(sent, b...)
		out, in = append(out, b), append(in, make([]byte, (i+1)%3))
	}
	for left := out; len(left) > 0; {
		n, err := streams[0].Write(left)
		require.NoError(t, err)
		for ; len(left) > 0 && n >= len(left[0]); left = left[1:] {
			n -= len(left[0])
		}
		if len(left) > 0 {
			left[0] = left[0][n:]
		}
	}
	streams[0].Finish()
	for start := time.Now(); err != io.EOF; {
		var n int
		n, err = streams[1].Read(in)
		for _, b := range in {
			part := b[:min(n, len(b))]
			got, n = append(got, part...), n-len(part)
		}
		require.Zero(t, n)
		require.Less(t, time.Since(start), time.Minute)
	}
	require.Equal(t, sent, got)
	for _, s := range streams {
		s.Close()
	}
}

// waiters runs a test with a waiter whose caller looks before it sleeps, and one whose caller does not.
func waiters(t *testing.T, f func(t *testing.T, near Stream, w Waiter, far net.Conn)) {
	t.Helper()
	for name, atOnce := range map[string]bool{"after looks": false, "at once": true} {
		t.Run(name, func(t *testing.T) {
			near, far := connected(t)
			defer far.Close()
			streams, w, err := Open([]net.Conn{near})
			require.NoError(t, err)
			defer w.Close()
			defer streams[0].Close()
			if atOnce {
				w.SleepAtOnce()
			}
			f(t, streams[0], w, far)
		})
	}
}

// TestWaitMissesNothing sends single bytes at random moments to a stream whose owner falls asleep. A byte that comes while the owner
// goes to sleep must wake it as well: no wait lasts until its limit.
func TestWaitMissesNothing(t *testing.T) {
	rounds := 20_000
	if testing.Short() {
		rounds = 2_000
	}
	waiters(t, func(t *testing.T, near Stream, w Waiter, far net.Conn) {
		const limit = 30 * time.Second
		next := make(chan time.Duration)
		go func() {
			b := []byte{1}
			for pause := range next {
				for until := time.Now().Add(pause); time.Now().Before(until); {
				}
				if _, err := far.Write(b); err != nil {
					return
				}
			}
		}()
		defer close(next)
		var b [8]byte
		for i := range rounds {
			next <- rand.N(20 * time.Microsecond)
			for start := time.Now(); ; {
				n, err := near.Read([][]byte{b[:]})
				require.NoError(t, err)
				require.Less(t, time.Since(start), limit, "byte %d has come and woken nobody", i)
				if n > 0 {
					break
				}
				w.Wait(start.Add(limit))
			}
		}
	})
}

// TestWaitEnds wakes a waiter that sleeps, lets others sleep for a time, and sleeps on after a wake that has been heard.
func TestWaitEnds(t *testing.T) {
	waiters(t, func(t *testing.T, near Stream, w Waiter, _ net.Conn) {
		_, err := near.Read([][]byte{make([]byte, 8)})
		require.NoError(t, err)
		w.Wait(time.Now().Add(time.Minute)) // the connection was ready to be written to
		for range 3 {
			began := time.Now()
			time.AfterFunc(20*time.Millisecond, w.Wake)
			w.Wait(began.Add(time.Minute))
			require.Less(t, time.Since(began), 30*time.Second)
			began = time.Now()
			w.Wait(began.Add(20 * time.Millisecond))
			require.GreaterOrEqual(t, time.Since(began), 20*time.Millisecond)
		}
	})
}
