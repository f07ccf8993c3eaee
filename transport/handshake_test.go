package transport

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func pair(t *testing.T) (dialer, acceptor net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	dialer, err = net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	acceptor, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { dialer.Close(); acceptor.Close() })
	return dialer, acceptor
}

func member(rank int) *Config {
	return &Config{Rank: rank, Size: 4, Group: 7, Name: "test", Lanes: 2, Secret: []byte("secret")}
}

// shake runs both sides and returns their errors.
func shake(t *testing.T, dialer, acceptor *Config, peer int, purpose uint16) (int, uint16, error, error) {
	t.Helper()
	d, a := pair(t)
	greeted := make(chan error, 1)
	go func() {
		err := Greet(context.Background(), d, dialer, peer, purpose)
		if err != nil {
			d.Close()
		}
		greeted <- err
	}()
	from, what, err := Admit(context.Background(), a, acceptor)
	a.Close()
	return from, what, <-greeted, err
}

func TestHandshake(t *testing.T) {
	for _, purpose := range []uint16{PurposeControl, PurposeLane, PurposeLane + 1} {
		peer, what, greet, admit := shake(t, member(3), member(1), 1, purpose)
		require.NoError(t, greet)
		require.NoError(t, admit)
		require.Equal(t, 3, peer)
		require.Equal(t, purpose, what)
	}
}

func TestHandshakeMismatch(t *testing.T) {
	with := func(rank int, f func(*Config)) *Config {
		c := member(rank)
		f(c)
		return c
	}
	for _, test := range []struct {
		name          string
		dialer        *Config
		purpose       uint16
		greet, admit  string // parts of the errors
		authenticated bool   // the acceptor takes the dialer for a member of the group
	}{
		{"secret", with(3, func(c *Config) { c.Secret = []byte("other") }), 0, "another secret: a group left over", "another secret: a group left over", false},
		{"group", with(3, func(c *Config) { c.Group = 9 }), 0, "rank 1 is of group 0x7", "rank 3 is of group 0x9, this is group 0x7 \"test\"", true},
		{"size", with(3, func(c *Config) { c.Size = 8 }), 0, "rank 1 says the group has 4 ranks, here it has 8", "rank 3 says the group has 8 ranks, here it has 4", true},
		{"self", with(1, func(*Config) {}), 0, "", "which is this rank", true},
		{"beyond", with(5, func(*Config) {}), 0, "", "says it is rank 5 of 4 ranks", true},
		{"lane", with(3, func(*Config) {}), 3, "", "opens lane 2, here a link has 2 lanes", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, greet, admit := shake(t, test.dialer, member(1), 1, test.purpose)
			require.ErrorContains(t, admit, test.admit)
			var pe *PeerError
			require.Equal(t, test.authenticated, errors.As(admit, &pe))
			if test.greet == "" {
				require.NoError(t, greet)
				return
			}
			require.ErrorContains(t, greet, test.greet)
			require.ErrorAs(t, greet, &pe)
			require.Equal(t, 1, pe.Peer)
		})
	}
}

func TestHandshakeWrongAddress(t *testing.T) {
	_, _, greet, admit := shake(t, member(3), member(1), 2, 0)
	require.ErrorContains(t, greet, "rank 1 answered at")
	require.ErrorContains(t, admit, "looks for rank 2, this is rank 1")
}

func TestHandshakeStrangers(t *testing.T) {
	for _, said := range []string{"", "GET / HTTP/1.1\r\n\r\n", "clgh", "clgh\x02\x00" + string(make([]byte, 58)), string(make([]byte, 200))} {
		d, a := pair(t)
		_, err := d.Write([]byte(said))
		require.NoError(t, err)
		d.(*net.TCPConn).CloseWrite()
		_, _, err = Admit(context.Background(), a, member(1))
		require.Error(t, err, "%q", said)
		require.False(t, errors.As(err, new(*PeerError)))
		a.Close()
	}
	d, a := pair(t)
	go func() { a.Write([]byte("220 mail ESMTP\r\n")); a.Close() }()
	err := Greet(context.Background(), d, member(3), 1, 0)
	require.ErrorContains(t, err, `not a rank of this library: it began with "220 "`)
	require.False(t, errors.As(err, new(*PeerError)))
}

// TestHandshakeReflection plays two attackers without the secret. One hands a rank's own messages back to it; the other
// plays a recorded handshake again.
func TestHandshakeReflection(t *testing.T) {
	d, a := pair(t)
	go func() { // what the dialer says comes back, its proof last
		var hello [greetSize]byte
		a.Read(hello[:])
		a.Write(append(hello[:], make([]byte, proofSize)...))
	}()
	require.ErrorContains(t, Greet(context.Background(), d, member(3), 1, 0), "another secret")

	d, a = pair(t)
	go func() { // the acceptor's own proof comes back as the dialer's
		hello := newGreeting(member(3), 1, 0)
		d.Write(hello.raw[:])
		_, proof, err := readAnswer(d)
		if err == nil {
			d.Write(proof)
		}
	}()
	_, _, err := Admit(context.Background(), a, member(1))
	require.ErrorContains(t, err, "another secret")

	var record bytes.Buffer
	d, a = pair(t)
	go Greet(context.Background(), tee{d, &record}, member(3), 1, 0)
	_, _, err = Admit(context.Background(), a, member(1))
	require.NoError(t, err)
	d, a = pair(t)
	_, err = d.Write(record.Bytes())
	require.NoError(t, err)
	_, _, err = Admit(context.Background(), a, member(1))
	require.ErrorContains(t, err, "another secret")
}

type tee struct {
	net.Conn
	to *bytes.Buffer
}

func (t tee) Write(p []byte) (int, error) {
	t.to.Write(p)
	return t.Conn.Write(p)
}

func TestHandshakeTime(t *testing.T) {
	_, a := pair(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, _, err := Admit(ctx, a, member(1))
	require.ErrorIs(t, err, context.DeadlineExceeded)

	d, _ := pair(t)
	ctx, stop := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, stop)
	require.ErrorIs(t, Greet(ctx, d, member(3), 1, 0), context.Canceled)
}

// FuzzAdmit feeds an acceptor: whatever comes, nobody gets in without the secret.
func FuzzAdmit(f *testing.F) {
	hello := newGreeting(member(3), 1, 0)
	f.Add(hello.raw[:])
	f.Add(append(hello.raw[:], make([]byte, proofSize)...))
	f.Fuzz(func(t *testing.T, said []byte) {
		d, a := net.Pipe()
		go func() {
			d.Write(said)
			d.Close()
		}()
		go func() {
			var sink [greetSize + proofSize]byte
			d.Read(sink[:])
		}()
		_, _, err := Admit(context.Background(), a, member(1))
		a.Close()
		require.Error(t, err)
		require.False(t, errors.As(err, new(*PeerError)))
	})
}
