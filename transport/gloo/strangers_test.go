package gloo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/journal"
	"github.com/colligo-go/colligo/store"
)

// dialFrom connects from an address of this host.
func dialFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
	conn, err := d.Dial("tcp", to)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// requireDropped requires that the other side ends a connection without a word.
func requireDropped(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	b, err := io.ReadAll(conn)
	require.Empty(t, b)
	var timeout net.Error
	require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "a stranger is let in")
}

// hello sends a message from rank 0 to rank 1 of a group, and one back.
func hello(t *testing.T, meshes []*Mesh) {
	t.Helper()
	for from := range 2 {
		sent := make(chan error, 1)
		go func() { sent <- put(meshes[from], 1-from, uint64(from), []byte("hello")) }()
		got := make([]byte, 5)
		_, err := get(meshes[1-from], from, uint64(from), got, false)
		require.NoError(t, err)
		require.NoError(t, <-sent)
		require.Equal(t, "hello", string(got))
	}
}

// oldListener returns where a rank of the old dialect listens for a peer.
func oldListener(t *testing.T, s store.Store, rank, peer, size int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := s.Get(ctx, strconv.Itoa(rank))
	require.NoError(t, err)
	a, err := decodeAddresses(b, rank, peer, size)
	require.NoError(t, err)
	return a.target()
}

// forming2 opens a group of two ranks, of which the second waits until it is let go. The second has the larger address and dials.
func forming2(t *testing.T, change func(*Config)) (s store.Store, j *journal.Journal, letGo func() []*Mesh) {
	s, j = store.NewHash(), new(journal.Journal)
	meshes, errs := make([]*Mesh, 2), make([]error, 2)
	var all sync.WaitGroup
	start := func(rank int) {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			c := &Config{Rank: rank, Size: 2, Name: t.Name(), Rendezvous: s, Host: fmt.Sprintf("127.0.0.%d", 2+rank)}
			if rank == 0 {
				c.Log = j.Log()
			}
			change(c)
			meshes[rank], errs[rank] = Open(ctx, c)
		})
	}
	start(0)
	return s, j, func() []*Mesh {
		start(1)
		all.Wait()
		require.NoError(t, errors.Join(errs...))
		t.Cleanup(func() {
			for _, m := range meshes {
				require.NoError(t, m.Close())
			}
		})
		return meshes
	}
}

// TestStrangersOld has strangers call a listener of the old dialect before the peer does, where nothing introduces a connection. They
// call from other addresses than that at which the peer listens. Each is dropped, the log says so, and the peer is let in after them.
func TestStrangersOld(t *testing.T) {
	secure := testTLS(t)
	for name, change := range map[string]func(*Config){
		"plain": func(c *Config) { c.Dialect = Old },
		"tls":   func(c *Config) { c.Dialect, c.TLS = Old, secure },
	} {
		t.Run(name, func(t *testing.T) {
			s, j, letGo := forming2(t, change)
			at := oldListener(t, s, 0, 1, 2)
			var strangers []net.Conn
			for i, said := range [][]byte{nil, []byte("GET / HTTP/1.1\r\n\r\n"), head{opNoticeSend, 1, 3}.append(nil)} {
				conn := dialFrom(t, fmt.Sprintf("127.0.0.%d", 9+i), at) // not judged before the peer's address is there
				_, err := conn.Write(said)
				require.NoError(t, err)
				strangers = append(strangers, conn)
			}
			meshes := letGo()
			for i, conn := range strangers {
				requireDropped(t, conn)
				require.Contains(t, j.String(), fmt.Sprintf("from=127.0.0.%d:", 9+i))
			}
			require.Contains(t, j.String(), "not from the peer's address: the peer listens at 127.0.0.3")
			hello(t, meshes)
		})
	}
}

// TestStrangersOldTLS has strangers at the peer's own address. With TLS they are found out, and the peer is let in after them.
func TestStrangersOldTLS(t *testing.T) {
	secure := testTLS(t)
	s, j, letGo := forming2(t, func(c *Config) { c.Dialect, c.TLS = Old, secure })
	at := oldListener(t, s, 0, 1, 2)
	silent, loud := dialFrom(t, "127.0.0.3", at), dialFrom(t, "127.0.0.3", at)
	_, err := loud.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	require.NoError(t, err)
	meshes := letGo()
	hello(t, meshes)
	_ = loud.SetReadDeadline(time.Now().Add(time.Minute))
	_, _ = io.Copy(io.Discard, loud) // an alert may come first
	require.Contains(t, j.String(), "connection dropped")
	require.NoError(t, silent.Close())
}

// TestStrangersOldAlone has nobody but strangers call. The rank's error says why they were not let in.
func TestStrangersOldAlone(t *testing.T) {
	s := store.NewHash()
	other := address{AddrPort: addrPort("127.0.0.9:1")}
	require.NoError(t, s.Set(t.Context(), "1", other.encode(nil)))
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, err := Open(ctx, &Config{Size: 2, Name: "g", Dialect: Old, Rendezvous: s, Host: "127.0.0.2"})
		failed <- err
	}()
	requireDropped(t, dialFrom(t, "127.0.0.5", oldListener(t, s, 0, 1, 2)))
	cancel()
	err := <-failed
	require.ErrorContains(t, err, "rank 1")
	require.ErrorContains(t, err, "it has not connected")
	require.ErrorContains(t, err, "a connection from 127.0.0.5:")
	require.ErrorContains(t, err, "the peer listens at 127.0.0.9")
}

// TestStrangersAfter has strangers call when a group has formed. No listener is left, in either dialect, and the group works.
func TestStrangersAfter(t *testing.T) {
	for _, d := range []Dialect{New, Old} {
		s, _, letGo := forming2(t, func(c *Config) { c.Dialect = d })
		meshes := letGo()
		at := ""
		if d == Old {
			at = oldListener(t, s, 0, 1, 2)
		} else {
			b, err := s.Get(t.Context(), "0")
			require.NoError(t, err)
			info, err := decodeRank(b, 2)
			require.NoError(t, err)
			at = info.address.target()
		}
		conn, err := net.DialTimeout("tcp", at, time.Minute)
		if err == nil {
			conn.Close()
		}
		require.Error(t, err, "dialect %d still listens", d)
		hello(t, meshes)
	}
}

// TestStrangersLazy has strangers call a rank that goes on listening for peers that connect lazily, before such a peer and after it.
// They say nothing, what is not Gloo's, numbers of no peer, and the number of a peer that is connected. The log tells of each that
// was dropped, and the peer is not disturbed.
func TestStrangersLazy(t *testing.T) {
	s, j := store.NewHash(), new(journal.Journal)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for peer := 1; peer < 3; peer++ {
		at := address{AddrPort: addrPort(fmt.Sprintf("127.0.0.%d:1", 2+peer))} // nobody dials it
		require.NoError(t, s.Set(ctx, strconv.Itoa(peer), (&rankInfo{host: "lazy", address: at}).encode()))
	}
	m, err := Open(ctx, &Config{Size: 3, Name: "lazy", Rendezvous: s, Host: "127.0.0.2", Log: j.Log()})
	require.NoError(t, err)
	defer m.Close()
	b, err := s.Get(ctx, "0")
	require.NoError(t, err)
	info, err := decodeRank(b, 3)
	require.NoError(t, err)
	at := info.address.target()
	pester := func(more ...[]byte) {
		silent, short := dialFrom(t, "127.0.0.9", at), dialFrom(t, "127.0.0.9", at)
		_, err := short.Write([]byte("x"))
		require.NoError(t, err)
		for _, said := range append([][]byte{[]byte("GET / HTTP/1.1\r\n\r\n"), le.AppendUint64(nil, 0), le.AppendUint64(nil, 3), le.AppendUint64(nil, ^uint64(0))}, more...) {
			conn := dialFrom(t, "127.0.0.9", at)
			_, err := conn.Write(said)
			require.NoError(t, err)
			requireDropped(t, conn)
			require.Contains(t, j.String(), "from="+conn.LocalAddr().String())
		}
		_, _ = silent, short // which are there until the test ends, or their time is up
	}
	pester()
	peer := dialFrom(t, "127.0.0.3", at)
	say := head{opNoticeSend, 6, 3}.append(le.AppendUint64(nil, 1))
	_, err = peer.Write(append(head{opPayload, 6, 3}.append(say), "abc"...))
	require.NoError(t, err)
	got := make([]byte, 3)
	_, err = get(m, 1, 6, got, true)
	require.NoError(t, err)
	require.Equal(t, "abc", string(got))
	pester(le.AppendUint64(nil, 1)) // the peer's own number, whose place is taken
	say = head{opNoticeSend, 7, 3}.append(nil)
	_, err = peer.Write(append(head{opPayload, 7, 3}.append(say), "def"...))
	require.NoError(t, err)
	_, err = get(m, 1, 7, got, true)
	require.NoError(t, err)
	require.Equal(t, "def", string(got))
}
