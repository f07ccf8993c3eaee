package tcpstore

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/journal"
)

// raw is a connection that speaks bytes.
type raw struct {
	t  testing.TB
	nc net.Conn
}

func rawDial(t testing.TB, s *Server) *raw {
	nc, err := net.Dial("tcp", s.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(time.Minute)))
	return &raw{t, nc}
}

func (r *raw) send(text string) {
	r.t.Helper()
	_, err := r.nc.Write(unhex(r.t, text))
	require.NoError(r.t, err)
}

func (r *raw) expect(want string) {
	r.t.Helper()
	frame := unhex(r.t, want)
	got := make([]byte, len(frame))
	_, err := io.ReadFull(r.nc, got)
	require.NoError(r.t, err, "want %s, got %x", want, got)
	require.Equal(r.t, hex.EncodeToString(frame), hex.EncodeToString(got))
}

// dropped requires that the server closes the connection without another byte.
func (r *raw) dropped() {
	r.t.Helper()
	rest, err := io.ReadAll(r.nc)
	if err != nil {
		require.ErrorContains(r.t, err, "reset", "a close with unread input resets")
	}
	require.Empty(r.t, rest)
}

// conversation is a recorded one: what a client sends, and what the server answers to all of it.
var conversation = []struct{ send, want string }{
	{"00 cef7853c", ""},
	{"0d d2040000", "d2040000"},
	{"04 0500000000000000 696e69742f 0100000000000000", "0100000000000000"},
	{"01 0200000000000000 2f6b 0100000000000000 76", ""},
	{"06 0100000000000000 0200000000000000 2f6b", "00"},
	{"03 0200000000000000 2f6b", "0100000000000000 76"},
	{"03 0200000000000000 2f7a", "0000000000000000"},
	{"02 0200000000000000 2f6d 0100000000000000 61 0100000000000000 62", "0100000000000000 61"},
	{"02 0200000000000000 2f6d 0000000000000000 0100000000000000 62", "0100000000000000 62"},
	{"02 0200000000000000 2f6d 0100000000000000 62 0100000000000000 63", "0100000000000000 63"},
	{"02 0200000000000000 2f6d 0100000000000000 62 0100000000000000 64", "0100000000000000 63"},
	{"05 0200000000000000 0200000000000000 2f6b 0200000000000000 2f7a", "01"},
	{"05 0100000000000000 0200000000000000 2f6b", "00"},
	{"09 0200000000000000 2f6b 0200000000000000 7778", ""},
	{"0b 0200000000000000 0200000000000000 2f61 0100000000000000 31 0200000000000000 2f62 0000000000000000", ""},
	{"0a 0300000000000000 0200000000000000 2f6b 0200000000000000 2f61 0200000000000000 2f62",
		"0300000000000000 767778 0100000000000000 31 0000000000000000"},
	{"07", "0500000000000000"},
	{"08 0200000000000000 2f6d", "0100000000000000"},
	{"08 0200000000000000 2f6d", "0000000000000000"},
	{"0c", "01"},
	{"0f 0200000000000000 2f71", "0000000000000000"},
	{"0e 0200000000000000 2f71 0100000000000000 78", ""},
	{"0e 0200000000000000 2f71 0000000000000000", ""},
	{"10 0200000000000000 2f71", "0200000000000000"},
	{"06 0100000000000000 0200000000000000 2f71", "00"},
	{"0f 0200000000000000 2f71", "0200000000000000 0100000000000000 78"},
	{"0f 0200000000000000 2f71", "0100000000000000 0000000000000000"},
	{"11",
		"0400000000000000 0200000000000000 2f61 0200000000000000 2f62 0200000000000000 2f6b 0500000000000000 696e69742f"},
	{"12 0200000000000000 2f77 0100000000000000", "00"},
}

// TestServerBytes plays the conversation request by request.
func TestServerBytes(t *testing.T) {
	r := rawDial(t, serve(t, ServerOptions{}))
	for _, c := range conversation {
		r.send(c.send)
		r.expect(c.want)
	}
}

// TestServerReassembles plays it in pieces of several sizes, byte by byte included, and all at once.
func TestServerReassembles(t *testing.T) {
	var all []byte
	var want strings.Builder
	for _, c := range conversation {
		all = append(all, unhex(t, c.send)...)
		want.WriteString(c.want)
	}
	for _, size := range []int{1, 2, 3, 7, 64, len(all)} {
		t.Run(fmt.Sprint("size=", size), func(t *testing.T) {
			r := rawDial(t, serve(t, ServerOptions{}))
			for rest := all; len(rest) > 0; {
				n := min(size, len(rest))
				_, err := r.nc.Write(rest[:n])
				require.NoError(t, err)
				rest = rest[n:]
			}
			r.expect(want.String())
		})
	}
}

// TestServerLenient: a first command other than validate passes, as with PyTorch's server.
func TestServerLenient(t *testing.T) {
	r := rawDial(t, serve(t, ServerOptions{}))
	r.send("0d 01020304")
	r.expect("01020304")
	r.send("00 cef7853c")
	r.dropped()
}

func TestServerWaitCancel(t *testing.T) {
	s := serve(t, ServerOptions{})
	a, b := rawDial(t, s), rawDial(t, s)
	a.send("00 cef7853c 06 0100000000000000 0200000000000000 2f6b") // wait "/k"
	a.send("0c")
	a.expect("01")
	// Set "/k", and ping to know that it is done.
	b.send("00 cef7853c 01 0200000000000000 2f6b 0000000000000000 0d 00000000")
	b.expect("00000000")
	a.send("0d 01000000")
	a.expect("01000000") // and no answer to the cancelled wait
	a.send("06 0200000000000000 0200000000000000 2f78 0200000000000000 2f79")
	b.send("01 0200000000000000 2f78 0000000000000000 01 0200000000000000 2f79 0000000000000000")
	a.expect("00") // one byte for two keys
	a.send("0c")
	a.expect("01")
}

func TestServerBarrier(t *testing.T) {
	s := serve(t, ServerOptions{})
	arrive := "12 0200000000000000 2f62 0300000000000000"
	var all []*raw
	for range 3 {
		r := rawDial(t, s)
		r.send("00 cef7853c 0d 00000000")
		r.expect("00000000")
		r.send(arrive)
		all = append(all, r)
	}
	for _, r := range all {
		r.expect("00")
	}
	all[0].send(arrive) // the counter is not reset
	all[0].expect("00")
}

// TestServerHostile sends what a server must not survive wrongly: each costs one connection and one log line.
func TestServerHostile(t *testing.T) {
	const hello = "00 cef7853c"
	for name, c := range map[string]struct{ send, log string }{
		"unknown first byte":  {hex.EncodeToString([]byte("GET / HTTP/1.1\r\n\r\n")), "perhaps HTTP"},
		"tls":                 {"16030100", "perhaps TLS"},
		"wrong magic":         {"00 deadbeef", "not a store client: magic"},
		"unknown command":     {hello + "13", "unknown command 19"},
		"second validate":     {hello + hello, "unknown command 0"},
		"long key":            {hello + "01 0120000000000000", "set: key of 8193 bytes exceeds 8192"},
		"long value":          {hello + "01 0100000000000000 6b 0100800000000000", "value of 8388609 bytes exceeds 8388608"},
		"huge value":          {hello + "09 0100000000000000 6b ffffffffffffffff", "value of 18446744073709551615 bytes"},
		"too many keys":       {hello + "06 0100020000000000", "wait: 131073 keys in one request exceed 131072"},
		"negative pair count": {hello + "0b ffffffffffffffff", "multi_set: 18446744073709551615 keys"},
		"add to text": {hello + "01 0100000000000000 6b 0100000000000000 76 04 0100000000000000 6b 0100000000000000",
			"not a number"},
	} {
		t.Run(name, func(t *testing.T) {
			var log journal.Journal
			s := serve(t, ServerOptions{Logger: log.Log()})
			good := dial(t, s, ClientOptions{})
			r := rawDial(t, s)
			r.send(c.send)
			r.dropped()
			eventually(t, "one line", func() bool { return strings.Contains(log.String(), c.log) })
			require.Contains(t, log.String(), r.nc.LocalAddr().String(), "the line names the client")
			require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
			require.NoError(t, good.Set(t.Context(), "still", nil))
			eventually(t, "closed", func() bool { return s.Clients() == 1 })
		})
	}
}

// TestServerHalfRequest ends a connection inside a request, at every place of a long one.
func TestServerHalfRequest(t *testing.T) {
	var log journal.Journal
	s := serve(t, ServerOptions{Logger: log.Log()})
	whole := unhex(t, "00 cef7853c 02 0200000000000000 2f6b 0000000000000000 0100000000000000 76")
	for n := range len(whole) {
		r := rawDial(t, s)
		_, err := r.nc.Write(whole[:n])
		require.NoError(t, err)
		require.NoError(t, r.nc.Close())
	}
	// At two places a request ends: before the first and after the validate.
	eventually(t, "lines", func() bool { return strings.Count(log.String(), "unexpected EOF") == len(whole)-2 })
	eventually(t, "all gone", func() bool { return s.Clients() == 0 })
	require.Zero(t, s.table.Len())
}

// TestServerForgetsWaits: a connection that ends takes its waits along.
func TestServerForgetsWaits(t *testing.T) {
	s := serve(t, ServerOptions{})
	all := make([]*raw, 20)
	for i := range all {
		all[i] = rawDial(t, s)
		all[i].send("00 cef7853c 06 0100000000000000 0200000000000000 2f6b")
	}
	eventually(t, "all wait", func() bool { return s.table.Watches() == len(all) })
	for _, r := range all {
		require.NoError(t, r.nc.Close())
	}
	eventually(t, "all gone", func() bool { return s.Clients() == 0 })
	require.Zero(t, s.table.Watches())
}

// TestServerSlowReader asks for much and reads nothing: others are served meanwhile, and the replies arrive in order.
func TestServerSlowReader(t *testing.T) {
	s := serve(t, ServerOptions{})
	good := dial(t, s, ClientOptions{})
	big := bytes.Repeat([]byte{0xab}, 1<<20)
	require.NoError(t, good.Set(t.Context(), "big", big))
	require.NoError(t, good.Wait(t.Context(), "big"))
	slow := rawDial(t, s)
	const asked = 64
	slow.send("00 cef7853c")
	one := unhex(t, "03 0400000000000000 2f626967")
	_, err := slow.nc.Write(append(bytes.Repeat(one, asked), unhex(t, "0d 07000000")...))
	require.NoError(t, err)
	for i := range 100 {
		n, err := good.Add(t.Context(), "n", 1)
		require.NoError(t, err)
		require.EqualValues(t, i+1, n)
	}
	got, err := io.CopyN(io.Discard, slow.nc, asked*(8+1<<20))
	require.NoError(t, err, "%d bytes", got)
	slow.expect("07000000")
}

// TestServerListener serves a listener that was bound before.
func TestServerListener(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := serve(t, ServerOptions{Listener: ln})
	require.Equal(t, ln.Addr().(*net.TCPAddr).Port, s.Port())
	c := dial(t, s, ClientOptions{})
	require.NoError(t, c.Set(t.Context(), "k", nil))
	_, err = Listen(s.Addr().String(), ServerOptions{})
	require.ErrorContains(t, err, "the server socket has failed to listen on any local network address")
}
