package shm

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/transporttest"
)

// memory makes a memory file with seals.
func memory(t *testing.T, size int64, seals int) int {
	fd, err := unix.MemfdCreate("colligo test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	require.NoError(t, unix.Ftruncate(fd, size))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	require.NoError(t, err)
	return fd
}

// A dialer that knows the secret and then passes what is not a segment makes Open fail and leaves nothing behind.
func TestBadSegmentsAreRefused(t *testing.T) {
	c := transport.Config{Rank: 0, Size: 2, Lanes: 1}
	l, err := newLayout(&c)
	require.NoError(t, err)
	good := (&hello{layout: l}).encode()
	other := bytes.Clone(good)
	other[12]++
	open := memory(t, l.segment(), 0)
	small := memory(t, l.segment()-1, seals)
	fine := memory(t, l.segment(), seals)
	for _, c := range []struct {
		name, want string
		hello      []byte
		fds        []int
	}{
		{"not sealed", "sealed against shrinking", good, []int{open}},
		{"too small", "sealed against shrinking", good, []int{small}},
		{"two", "2 descriptors, not 1", good, []int{fine, fine}},
		{"none", "0 descriptors, not 1", good, nil},
		{"no memory", "seals of its segment", good, []int{0}},
		{"cut short", "cut short", good[:100], []int{fine}},
		{"other layout", "size, lanes, slots, frame", other, []int{fine}},
		{"other program", "another version", make([]byte, helloSize), []int{fine}},
		{"nothing", "waiting for its segment", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := held(t)
			err := meetHello(t, c.hello, c.fds)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "rank 0 cannot link with rank 1")
			settled(t, before)
		})
	}
}

// meetHello opens rank 0, plays a rank 1 that says hello like this, and returns what Open says.
func meetHello(t *testing.T, hello []byte, fds []int) error {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := transporttest.NewRendezvous()
	opened := make(chan error, 1)
	go func() {
		_, err := Open(ctx, &transport.Config{Rank: 0, Size: 2, Lanes: 1, Rendezvous: r})
		opened <- err
	}()
	peer := meeting{m: &mesh{c: &transport.Config{Rank: 1, Size: 2, Lanes: 1, Rendezvous: r}}}
	conn, err := peer.connect(ctx, 0)
	require.NoError(t, err)
	require.NoError(t, transport.Greet(ctx, conn, peer.m.c, 0, transport.PurposeControl))
	if hello != nil {
		sendHello(t, conn, hello, fds)
	}
	require.NoError(t, conn.CloseWrite())
	err = <-opened
	conn.Close()
	return err
}

func sendHello(t *testing.T, conn *net.UnixConn, hello []byte, fds []int) {
	var rights []byte
	if fds != nil {
		rights = unix.UnixRights(fds...)
	}
	_, _, err := conn.WriteMsgUnix(hello, rights, nil)
	require.NoError(t, err)
}
