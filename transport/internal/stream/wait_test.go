package stream

import (
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

// TestWaitMissesNothing sends single bytes at random moments to a stream whose owner falls asleep. A byte that comes while the owner
// goes to sleep must wake it as well: no wait lasts until its limit.
func TestWaitMissesNothing(t *testing.T) {
	const limit = 30 * time.Second
	near, far := connected(t)
	defer far.Close()
	streams, w, err := Open([]net.Conn{near})
	require.NoError(t, err)
	defer w.Close()
	defer streams[0].Close()
	rounds := 20_000
	if testing.Short() {
		rounds = 2_000
	}
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
			n, err := streams[0].Read([][]byte{b[:]})
			require.NoError(t, err)
			require.Less(t, time.Since(start), limit, "byte %d has come and woken nobody", i)
			if n > 0 {
				break
			}
			w.Wait(start.Add(limit))
		}
	}
}
