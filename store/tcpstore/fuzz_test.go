package tcpstore

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
)

// FuzzServer feeds a session bytes, whole and in two pieces. Neither may panic or hang, both must answer alike, and
// what they leave behind must be the same.
func FuzzServer(f *testing.F) {
	var all []byte
	for _, c := range conversation {
		frame := unhex(f, c.send)
		f.Add(frame, len(frame)/2)
		all = append(all, frame...)
	}
	f.Add(all, 5)
	f.Add(unhex(f, "00 cef7853c 0b ffffffffffffff7f"), 9)
	f.Add([]byte{0}, 1)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), 3)
	f.Fuzz(func(t *testing.T, data []byte, cut int) { inPieces(t, Torch2, data, cut) })
}

// FuzzServerTorch113 feeds a session bytes in the dialect of PyTorch 1.13, as FuzzServer does. A request that only later versions have ends the connection,
// and whatever follows it stores nothing.
func FuzzServerTorch113(f *testing.F) {
	var all []byte
	for _, c := range conversation {
		frame := unhex(f, c.send)
		code, ok := Torch113.code(frame[0])
		if !ok {
			f.Add(frame, 1) // reads as another command, or as none
			continue
		}
		frame[0] = code
		f.Add(frame, len(frame)/2)
		all = append(all, frame...)
	}
	f.Add(all, 5)
	f.Add(append([]byte{7}, all...), 1) // to watch a key
	f.Add(unhex(f, "00 ffffffffffffff7f 2f"), 9)
	f.Add(unhex(f, "05 ffffffffffffffff"), 4)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), 3)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		table := inPieces(t, Torch113, data, cut)
		if len(data) == 0 {
			return
		}
		if _, known := Torch113.command(data[0]); !known {
			require.Empty(t, table.Keys())
		}
	})
}

// inPieces feeds a session bytes whole and cut in two, compares what comes of both, and returns what is stored.
func inPieces(t *testing.T, d Dialect, data []byte, cut int) *store.Table {
	cut = min(max(cut, 0), len(data))
	once, first := converse(t, d, data)
	twice, second := converse(t, d, data[:cut], data[cut:])
	require.Equal(t, once, twice)
	require.Equal(t, first.Keys(), second.Keys())
	require.Zero(t, first.Watches())
	require.Zero(t, second.Watches())
	return first
}

// converse plays pieces to a fresh server, and returns its replies and what it stores.
func converse(t *testing.T, d Dialect, pieces ...[]byte) ([]byte, *store.Table) {
	s := &Server{table: store.NewTable(), dialect: d, log: slog.New(slog.DiscardHandler)}
	var played tape
	for _, p := range pieces {
		played.heard = append(played.heard, bytes.Clone(p))
	}
	s.serve(&played)
	s.running.Wait()
	require.True(t, played.closed)
	return played.said, s.table
}

// tape is a connection to a client who has said all it will say. Only the session's goroutine uses it: a wait that
// another could end is ended by the session's next request.
type tape struct {
	net.Conn
	heard  [][]byte
	said   []byte
	closed bool
}

func (c *tape) Read(p []byte) (int, error) {
	for len(c.heard) > 0 {
		n := copy(p, c.heard[0])
		if c.heard[0] = c.heard[0][n:]; n > 0 {
			return n, nil
		}
		c.heard = c.heard[1:]
	}
	return 0, io.EOF
}

func (c *tape) Write(p []byte) (int, error) {
	c.said = append(c.said, p...)
	return len(p), nil
}

func (c *tape) Close() error {
	c.closed = true
	return nil
}

func (c *tape) RemoteAddr() net.Addr { return &net.UnixAddr{Name: "tape"} }
