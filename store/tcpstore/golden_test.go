package tcpstore

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
)

// unhex reads hex text with spaces between fields.
func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	require.NoError(t, err)
	return b
}

// script is a listener that expects bytes and answers with others, for one connection.
type script struct {
	t  *testing.T
	ln net.Listener
	nc net.Conn
}

func newScript(t *testing.T) *script {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &script{t: t, ln: ln}
	t.Cleanup(func() {
		require.NoError(t, ln.Close())
		if s.nc != nil {
			_ = s.nc.Close()
		}
	})
	return s
}

// connect dials the script as a client without ping, and takes its greeting.
func (s *script) connect() *Client {
	c := dialAddr(s.t, s.ln.Addr().String(), ClientOptions{NoPing: true})
	s.accept()
	s.expect("00 cef7853c")
	return c
}

func (s *script) accept() {
	nc, err := s.ln.Accept()
	require.NoError(s.t, err)
	s.nc = nc
}

func (s *script) expect(want string) {
	s.t.Helper()
	frame := unhex(s.t, want)
	got := make([]byte, len(frame))
	require.NoError(s.t, s.nc.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err := io.ReadFull(s.nc, got)
	require.NoError(s.t, err, "want %s, got %x", want, got)
	require.Equal(s.t, hex.EncodeToString(frame), hex.EncodeToString(got))
}

func (s *script) reply(text string) {
	_, err := s.nc.Write(unhex(s.t, text))
	require.NoError(s.t, err)
}

// quiet fails if the client has sent more than was expected.
func (s *script) quiet() {
	s.t.Helper()
	require.NoError(s.t, s.nc.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	n, err := s.nc.Read(make([]byte, 1))
	require.True(s.t, n == 0 && errors.Is(err, os.ErrDeadlineExceeded), "%d bytes more, error %v", n, err)
}

// Pieces of the frames below.
const (
	keyK  = "0200000000000000 2f6b" // "/k"
	keyL  = "0200000000000000 2f6c" // "/l"
	valV  = "0100000000000000 76"
	empty = "0000000000000000"
	one   = "0100000000000000"
	two   = "0200000000000000"
)

type ctx = context.Context

// clientBytes is what every call sends and gets.
var clientBytes = []struct {
	name  string
	steps []string // a request and its reply, in turn
	call  func(ctx, *Client) (any, error)
	want  any
}{
	{"set", []string{"01" + keyK + valV, ""},
		func(x ctx, c *Client) (any, error) { return nil, c.Set(x, "k", []byte("v")) }, nil},
	{"compare_set", []string{"02" + keyK + empty + valV, valV},
		func(x ctx, c *Client) (any, error) { return c.CompareSet(x, "k", nil, []byte("v")) }, []byte("v")},
	{"get", []string{"06" + one + keyK, "00", "03" + keyK, valV},
		func(x ctx, c *Client) (any, error) { return c.Get(x, "k") }, []byte("v")},
	{"get of the default group's id", []string{
		"06 0100000000000000 1600000000000000 2f64656661756c745f70672f302f2f637564612f2f30", "00",
		"03 1600000000000000 2f64656661756c745f70672f302f2f637564612f2f30", valV},
		func(x ctx, c *Client) (any, error) {
			return store.NewPrefix("cuda/", store.NewPrefix("0/", store.NewPrefix("default_pg", c))).Get(x, "0")
		}, []byte("v")},
	{"add", []string{"04" + keyK + "feffffffffffffff", "fbffffffffffffff"},
		func(x ctx, c *Client) (any, error) { return c.Add(x, "k", -2) }, int64(-5)},
	{"check", []string{"05" + two + keyK + keyL, "01"},
		func(x ctx, c *Client) (any, error) { return c.Check(x, "k", "l") }, false},
	{"check ready", []string{"05" + one + keyK, "00"},
		func(x ctx, c *Client) (any, error) { return c.Check(x, "k") }, true},
	{"wait", []string{"06" + two + keyK + keyL, "00"},
		func(x ctx, c *Client) (any, error) { return nil, c.Wait(x, "k", "l") }, nil},
	{"num_keys", []string{"07", two},
		func(x ctx, c *Client) (any, error) { return c.NumKeys(x) }, int64(2)},
	{"delete_key", []string{"08" + keyK, one},
		func(x ctx, c *Client) (any, error) { return c.Delete(x, "k") }, true},
	{"append", []string{"09" + keyK + valV, ""},
		func(x ctx, c *Client) (any, error) { return nil, c.Append(x, "k", []byte("v")) }, nil},
	{"multi_get", []string{"06" + two + keyK + keyL, "00", "0a" + two + keyK + keyL, valV + empty},
		func(x ctx, c *Client) (any, error) { return c.MultiGet(x, []string{"k", "l"}) },
		[][]byte{[]byte("v"), {}}},
	{"multi_set", []string{"0b" + two + keyK + valV + keyL + empty, ""},
		func(x ctx, c *Client) (any, error) {
			return nil, c.MultiSet(x, []string{"k", "l"}, [][]byte{[]byte("v"), nil})
		}, nil},
	{"queue_push", []string{"0e" + keyK + valV, ""},
		func(x ctx, c *Client) (any, error) { return nil, c.QueuePush(x, "k", []byte("v")) }, nil},
	{"queue_pop", []string{"0f" + keyK, two + valV},
		func(x ctx, c *Client) (any, error) { return c.QueuePop(x, "k", false) }, []byte("v")},
	{"queue_pop blocking", []string{
		"06" + one + keyK, "00", "0f" + keyK, empty,
		"06" + one + keyK, "00", "0f" + keyK, one + valV},
		func(x ctx, c *Client) (any, error) { return c.QueuePop(x, "k", true) }, []byte("v")},
	{"queue_len", []string{"10" + keyK, two},
		func(x ctx, c *Client) (any, error) { return c.QueueLen(x, "k") }, int64(2)},
	{"list_keys", []string{"11", "0300000000000000" + keyL + "0500000000000000 696e69742f" + keyK},
		func(x ctx, c *Client) (any, error) { return c.ListKeys(x) }, []string{"k", "l"}},
}

// TestClientBytes holds every call to its bytes on the wire.
func TestClientBytes(t *testing.T) {
	for _, c := range clientBytes {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			client := s.connect()
			type result struct {
				val any
				err error
			}
			done := make(chan result, 1)
			go func() {
				v, err := c.call(t.Context(), client)
				done <- result{v, err}
			}()
			for i := 0; i < len(c.steps); i += 2 {
				s.expect(c.steps[i])
				s.reply(c.steps[i+1])
			}
			got := <-done
			require.NoError(t, got.err)
			require.Equal(t, c.want, got.val)
			s.quiet()
		})
	}
}

// TestClientGreeting: validate, ping with the process id, and one for the workers' counter.
func TestClientGreeting(t *testing.T) {
	s := newScript(t)
	done := make(chan error, 1)
	go func() {
		c, err := Dial(t.Context(), s.ln.Addr().String(), ClientOptions{WorldSize: 2, WaitForWorkers: true})
		if err == nil {
			err = c.Close()
		}
		done <- err
	}()
	s.accept()
	s.expect("00 cef7853c")
	pid := hex.EncodeToString(request{}.uint32(uint32(os.Getpid())))
	s.expect("0d" + pid)
	s.reply(pid)
	s.expect("04 0500000000000000 696e69742f 0100000000000000")
	s.reply("0100000000000000")
	for _, text := range []string{"31", "32"} {
		s.expect("06 0100000000000000 0500000000000000 696e69742f")
		s.reply("00")
		s.expect("03 0500000000000000 696e69742f")
		s.reply("0100000000000000" + text)
	}
	require.NoError(t, <-done)
}

// TestClientCancelWait plays both answers to a cancelled wait, and uses the connection afterwards.
func TestClientCancelWait(t *testing.T) {
	for name, c := range map[string]struct {
		reply string
		err   error
	}{
		"cancelled": {"01", store.ErrTimeout},
		"crossed":   {"00 01", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			client := s.connect()
			client.first.patience = time.Minute
			limited, pass := dueWhenTold(t)
			done := make(chan error, 1)
			go func() { done <- client.Wait(limited, "nope") }()
			s.expect("06 0100000000000000 0500000000000000 2f6e6f7065")
			pass()
			s.expect("0c")
			s.reply(c.reply)
			err := <-done
			require.ErrorIs(t, err, c.err)
			if c.err != nil {
				require.Regexp(t, "^tcpstore: wait timeout after [0-9]+ms, keys: /nope$", err.Error())
			}
			client.SetTimeout(0)
			go func() { done <- client.Wait(t.Context(), "k") }()
			s.expect("06 0100000000000000 0200000000000000 2f6b")
			s.reply("00")
			require.NoError(t, <-done)
		})
	}
}
