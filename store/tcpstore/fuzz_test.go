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
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		cut = min(max(cut, 0), len(data))
		once, first := converse(t, data)
		twice, second := converse(t, data[:cut], data[cut:])
		require.Equal(t, once, twice)
		require.Equal(t, first.Keys(), second.Keys())
		require.Zero(t, first.Watches())
		require.Zero(t, second.Watches())
	})
}

// converse plays pieces to a fresh server, and returns its replies and what it stores.
func converse(t *testing.T, pieces ...[]byte) ([]byte, *store.Table) {
	s := &Server{table: store.NewTable(), log: slog.New(slog.DiscardHandler)}
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
