package stream

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestUnpaced has a connection within the host take the congestion control that does not pace, and one between two addresses keep its own.
func TestUnpaced(t *testing.T) {
	system := func(fd int) string {
		s, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		require.NoError(t, err)
		return s
	}
	for _, to := range []string{"127.0.0.1", "127.0.0.2"} {
		l, err := net.Listen("tcp", to+":0")
		require.NoError(t, err)
		defer l.Close()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
		conn, err := d.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		want := ""
		raw, err := conn.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) { want = system(int(fd)) }))
		if to == "127.0.0.1" {
			require.True(t, SameHost(conn))
			want = "reno"
		}
		streams, w, err := Open([]net.Conn{conn})
		require.NoError(t, err)
		require.Equal(t, want, system(streams[0].(*socket).fd), to)
		streams[0].Close()
		w.Close()
	}
}
