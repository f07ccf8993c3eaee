package pg_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
	"github.com/colligo-go/colligo/store"
)

// garbage is what strangers say: nothing, text, TLS, a store's or a rank's first bytes and then something else, noise.
func garbage() map[string][]byte {
	noise := make([]byte, 4096)
	rand.Read(noise)
	le := func(n ...byte) []byte { return append(n, 0, 0, 0, 0, 0, 0, 0, 0x7f) }
	return map[string][]byte{
		"nothing":                 {},
		"http":                    []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"tls":                     {0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0},
		"store, huge key":         append([]byte{0, 0xce, 0xf7, 0x85, 0x3c}, le(1)...),
		"store, wrong magic":      {0, 1, 2, 3, 4},
		"rank of another version": append([]byte("clgh\xff\xff"), make([]byte, 58)...),
		"rank without a secret":   append([]byte("clgh\x01\x00\x00\x00"), make([]byte, 56+32)...),
		"zeros":                   make([]byte, 4096),
		"noise":                   noise,
	}
}

// pester sends garbage to an address. It expects each connection to be closed by the other side, or nothing to happen until
// this side closes it. It returns the addresses that the strangers came from.
func pester(t *testing.T, addr string) (from []string) {
	t.Helper()
	for name, b := range garbage() {
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err, name)
		_, err = c.Write(b)
		if err == nil {
			require.NoError(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
			_, err = io.Copy(io.Discard, c)
		}
		t.Logf("%s: %v", name, err)
		from = append(from, c.LocalAddr().String())
		require.NoError(t, c.Close())
	}
	return from
}

// TestStrangersAtStore pesters the store before the group has formed and after. The group forms and works.
func TestStrangersAtStore(t *testing.T) {
	t.Parallel()
	addr := freeport.Address(t, "127.0.0.1")
	j := newJob(t)
	o := order{Role: "late", Config: config{Init: "tcp://" + addr, Size: 3}}
	first := j.start(o)
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err == nil
	}, patience, 10*time.Millisecond)
	from := pester(t, addr)
	for o.Config.Rank = 1; o.Config.Rank < 3; o.Config.Rank++ {
		j.start(o)
	}
	j.all("init")
	from = append(from, pester(t, addr)...)
	require.Eventually(t, func() bool {
		seen := 0
		for _, a := range from {
			if strings.Contains(first.log.String(), a) {
				seen++
			}
		}
		return seen >= len(from)-4
	}, patience, 10*time.Millisecond, "those that said nothing, or something that a client may say, are not worth a line")
	for _, p := range j.procs {
		p.say("go")
	}
	for _, p := range j.procs {
		require.Empty(t, p.next("done").Err)
	}
	for _, p := range j.procs {
		p.ends()
	}
	require.Contains(t, first.log.String(), "connection dropped")
	require.Contains(t, first.log.String(), "perhaps HTTP")
}

// TestStrangersAtData pesters the listeners of ranks while the group forms over tcp. The group forms and works, and then
// listens no more.
func TestStrangersAtData(t *testing.T) {
	t.Parallel()
	j := launch(t, 3, order{Role: "late", Config: config{Held: true}}, nil)
	j.all("held")
	j.procs[0].say("open")
	j.procs[1].say("open")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	group := store.NewPrefix("colligo/0", j.storeOf(t))
	var pestered []string
	for rank := range 2 {
		addrs, err := group.Get(ctx, fmt.Sprintf("tcp/%d", rank))
		require.NoError(t, err)
		addr, _, _ := strings.Cut(string(addrs), "\n")
		pester(t, addr)
		silent, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer silent.Close() // only after the group has formed
		pestered = append(pestered, addr)
	}
	j.procs[2].say("open")
	j.all("init")
	for rank, addr := range pestered {
		_, err := net.Dial("tcp", addr)
		require.Error(t, err, "rank %d", rank)
		j.procs[rank].logs("connection dropped", "not a rank of this library: it began with \\\"GET ")
		j.procs[rank].logs("connection dropped", "handshake version 65535")
		j.procs[rank].logs("connection dropped", "which says it is rank 0")
	}
	for _, p := range j.procs {
		p.say("go")
	}
	for _, p := range j.procs {
		require.Empty(t, p.next("done").Err)
	}
	for _, p := range j.procs {
		p.ends()
	}
}

// TestSecret has a rank that read another secret than the others have: it is kept out, and knows why.
func TestSecret(t *testing.T) {
	t.Parallel()
	j := launch(t, 2, order{Role: "check", Config: config{Held: true, ConnectTimeout: 8 * time.Second}}, nil)
	j.all("held")
	// Both have the true secret by now. Rank 1 is sent to a listener that knows neither.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.CopyN(io.Discard, c, 64)
			c.Write(append([]byte("clgh\x01\x00\x00\x00"), make([]byte, 56+32)...))
			io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	require.NoError(t, store.NewPrefix("colligo/0", j.storeOf(t)).Set(t.Context(), "tcp/0", []byte(l.Addr().String())))
	j.procs[1].say("open")
	says := j.procs[1].refused()
	require.Contains(t, says, "rank 0: ")
	j.procs[0].say("open")
	require.Contains(t, j.procs[0].refused(), "rank 1")
}
