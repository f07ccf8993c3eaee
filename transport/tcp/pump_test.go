package tcp

import (
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
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
		streams, _ := pumps([]net.Conn{conn})
		s := streams[0]
		n, err := s.write([][]byte{make([]byte, 2*ringBytes)})
		require.NoError(t, err)
		require.Equal(t, ringBytes, n)
		s.finish()
		for !s.flushed() {
			time.Sleep(time.Millisecond)
		}
		start := time.Now()
		s.close()
		require.Less(t, time.Since(start), closeLimit)
	})
}
