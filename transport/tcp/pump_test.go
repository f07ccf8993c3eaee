package tcp

import (
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport/internal/stream"
)

// TestPumpCloseFull closes an encrypted lane whose peer has taken nothing for so long that the sent bytes are given up. The
// farewell of TLS must not wait for that peer, too.
func TestPumpCloseFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conf := testTLS(t)
		near, far := net.Pipe()
		defer far.Close()
		peer := tls.Server(far, conf)
		go peer.Handshake()
		conn := tls.Client(near, clientTLS(conf, "127.0.0.1:1"))
		require.NoError(t, conn.Handshake())
		w, err := stream.New(false)
		require.NoError(t, err)
		s, err := w.Add(conn)
		require.NoError(t, err)
		n, err := s.Write([][]byte{make([]byte, 2*stream.RingBytes)})
		require.NoError(t, err)
		require.Equal(t, stream.RingBytes, n)
		s.Finish()
		for !s.Flushed() {
			time.Sleep(time.Millisecond)
		}
		start := time.Now()
		s.Close()
		require.Less(t, time.Since(start), closeLimit)
	})
}
