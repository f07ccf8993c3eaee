package stream

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestCongestionControl has a connection within the host change the congestion control with long writes and with many short ones. One
// between two addresses keeps its own.
func TestCongestionControl(t *testing.T) {
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
		reader, err := l.Accept()
		require.NoError(t, err)
		var read sync.WaitGroup
		read.Go(func() { _, _ = io.Copy(io.Discard, reader) })
		streams, w, err := Open([]net.Conn{conn})
		require.NoError(t, err)
		fd := streams[0].(*socket).fd
		own, long := system(fd), "reno"
		if to == "127.0.0.2" {
			long = own
		}
		write := func(sizes ...int) {
			var bufs [][]byte
			for _, n := range sizes {
				bufs = append(bufs, make([]byte, n))
			}
			for sent := 0; sent == 0; {
				sent, err = streams[0].Write(bufs)
				require.NoError(t, err)
			}
		}
		for range 2 {
			write(100)
			require.Equal(t, own, system(fd), to)
			write(64, longWrite-64)
			require.Equal(t, long, system(fd), to)
			for range shortWrites - 1 {
				write(100, longWrite-101)
			}
			require.Equal(t, long, system(fd), to)
			write(longWrite)
			for range shortWrites - 1 {
				write(1)
			}
			require.Equal(t, long, system(fd), "%s: a long write among them", to)
			write(1)
			require.Equal(t, own, system(fd), to)
		}
		streams[0].Close()
		w.Close()
		read.Wait()
		reader.Close()
	}
}
