package gloo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
)

// open links the ranks of a group within this process.
func open(t *testing.T, size int, change func(*Config)) []*Mesh {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := store.NewHash()
	meshes, errs := make([]*Mesh, size), make([]error, size)
	var all sync.WaitGroup
	for rank := range size {
		all.Go(func() {
			c := &Config{Rank: rank, Size: size, Name: t.Name(), Rendezvous: s, Host: "127.0.0.1"}
			if change != nil {
				change(c)
			}
			meshes[rank], errs[rank] = Open(ctx, c)
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	t.Cleanup(func() {
		for _, m := range meshes {
			require.NoError(t, m.Close())
		}
	})
	return meshes
}

// drive runs rounds over a mesh until over says so.
func drive(m *Mesh, over func() (bool, error)) error {
	until := time.Now().Add(time.Minute)
	for idle := 1; time.Now().Before(until); idle++ {
		if err := m.Poll(); err != nil {
			return err
		}
		if done, err := over(); done || err != nil {
			return err
		}
		m.Wait(idle, time.Now().Add(50*time.Millisecond))
	}
	return errors.New("nothing moves")
}

// put sends a message whole.
func put(m *Mesh, peer int, slot uint64, b []byte) error {
	var s Send
	if err := m.Announce(&s, peer, slot, len(b)); err != nil {
		return err
	}
	return drive(m, func() (bool, error) { return m.Write(&s, b) })
}

// get receives a message whole: straight into its destination, or piece by piece from the mesh's memory.
func get(m *Mesh, peer int, slot uint64, b []byte, direct bool) (from int, err error) {
	var r Receive
	if err := m.Post(&r, peer, slot, len(b)); err != nil {
		return AnyPeer, err
	}
	err = take(m, &r, b, direct)
	return r.Peer(), err
}

// take receives the message of a receive that was posted.
func take(m *Mesh, r *Receive, b []byte, direct bool) error {
	got := 0
	return drive(m, func() (bool, error) {
		n, err := m.Arrived(r, 1, direct)
		for n >= 0 && err == nil {
			var dst []byte
			if direct {
				dst = b[got : got+n]
			}
			piece, ok, err := m.Body(r, dst, n)
			if err != nil || !ok {
				return false, err
			}
			got += copy(b[got:], piece)
			if m.Release(r, n, direct) {
				return true, nil
			}
			n, err = m.Arrived(r, 1, direct)
			if err != nil {
				return false, err
			}
		}
		return false, err
	})
}

// ways are the configurations of a mesh that all tests of messages run in.
func ways(t *testing.T) map[string]func(*Config) {
	secure := testTLS(t)
	return map[string]func(*Config){
		"new":  nil,
		"old":  func(c *Config) { c.Dialect = Old },
		"ipv6": func(c *Config) { c.Host = "::1" },
		"tls":  func(c *Config) { c.TLS = secure },
		"tls old": func(c *Config) {
			c.TLS, c.Dialect = secure, Old
		},
	}
}

// TestMessages has every rank send messages of many lengths to all others, on slots of their own, in either order of the two
// notices.
func TestMessages(t *testing.T) {
	lengths := []int{0, 1, 7, 48, 4 << 10, 100_001, 3 << 20}
	for name, change := range ways(t) {
		t.Run(name, func(t *testing.T) {
			if name == "ipv6" {
				requireIPv6(t)
			}
			const size = 3
			meshes := open(t, size, change)
			errs := make([]error, size)
			var all sync.WaitGroup
			for rank, m := range meshes {
				all.Go(func() { errs[rank] = rotate(m, lengths) })
			}
			all.Wait()
			require.NoError(t, errors.Join(errs...))
		})
	}
}

// rotate sends to the rank i further on and receives from the rank i before, for all i and lengths.
func rotate(m *Mesh, lengths []int) error {
	for i := 1; i < m.size; i++ {
		for j, n := range lengths {
			to, from := (m.rank+i)%m.size, (m.rank+m.size-i)%m.size
			out, in := pattern(m.rank, n), make([]byte, n)
			var s Send
			var r Receive
			slot := Slot(4, uint32(i*len(lengths)+j))
			direct := j%2 == 0
			if err := errors.Join(m.Post(&r, from, slot, n), m.Announce(&s, to, slot, n)); err != nil {
				return err
			}
			sent, got, over := false, 0, false
			err := drive(m, func() (bool, error) {
				if !sent {
					ok, err := m.Write(&s, out)
					if err != nil {
						return false, err
					}
					sent = ok
				}
				for !over {
					n, err := m.Arrived(&r, 1, direct)
					if err != nil || n < 0 {
						return false, err
					}
					var dst []byte
					if direct {
						dst = in[got : got+n]
					}
					piece, ok, err := m.Body(&r, dst, n)
					if err != nil || !ok {
						return false, err
					}
					got += copy(in[got:], piece)
					over = m.Release(&r, n, direct)
				}
				return sent && over, nil
			})
			if err != nil {
				return fmt.Errorf("rank %d, shift %d, %d bytes: %w", m.rank, i, n, err)
			}
			if !bytes.Equal(in, pattern(from, n)) {
				return fmt.Errorf("rank %d: wrong bytes from %d", m.rank, from)
			}
		}
	}
	return nil
}

func pattern(rank, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + rank)
	}
	return b
}

// TestOrder sends several messages on one slot before the first is received, and takes them in their order.
func TestOrder(t *testing.T) {
	meshes := open(t, 2, nil)
	var sends [5]Send
	for i := range sends {
		require.NoError(t, meshes[0].Announce(&sends[i], 1, 9, 10+i))
	}
	done := make(chan error, 1)
	go func() {
		for i := range sends {
			if err := drive(meshes[0], func() (bool, error) { return meshes[0].Write(&sends[i], pattern(i, 10+i)) }); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for i := range sends {
		b := make([]byte, 10+i)
		_, err := get(meshes[1], 0, 9, b, i%2 == 0)
		require.NoError(t, err)
		require.Equal(t, pattern(i, 10+i), b)
	}
	require.NoError(t, <-done)
}

// TestReceiveFromAny takes one message of each peer, whatever comes first, also where the receive is posted first.
// TestOutOfTurn posts receives on two slots and asks for one of them, whose message comes second. The message before it must not stand
// in its way, and is received afterwards.
func TestOutOfTurn(t *testing.T) {
	for name, change := range ways(t) {
		for _, n := range []int{0, 24, 3 << 20} {
			for _, direct := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %d bytes, direct %v", name, n, direct), func(t *testing.T) {
					meshes := open(t, 2, change)
					sent := make(chan error, 1)
					go func() { sent <- errors.Join(put(meshes[1], 0, 2, pattern(2, n)), put(meshes[1], 0, 1, pattern(1, n))) }()
					var early, late Receive
					require.NoError(t, meshes[0].Post(&late, 1, 1, n))
					require.NoError(t, meshes[0].Post(&early, 1, 2, n))
					for i, r := range []*Receive{&late, &early} {
						got := make([]byte, n)
						require.NoError(t, take(meshes[0], r, got, direct), "slot %d", i+1)
						require.Equal(t, pattern(i+1, n), got, "slot %d", i+1)
					}
					require.NoError(t, <-sent)
				})
			}
		}
	}
}

func TestReceiveFromAny(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprint("posted first ", first), func(t *testing.T) {
			meshes := open(t, 4, nil)
			var all sync.WaitGroup
			errs := make([]error, 4)
			for rank := 1; rank < 4; rank++ {
				all.Go(func() {
					if first {
						time.Sleep(time.Duration(rank) * 20 * time.Millisecond)
					}
					errs[rank] = put(meshes[rank], 0, 77, pattern(rank, 1000))
				})
			}
			seen := map[int]bool{}
			for range 3 {
				b := make([]byte, 1000)
				from, err := get(meshes[0], AnyPeer, 77, b, true)
				require.NoError(t, err)
				require.Equal(t, pattern(from, 1000), b)
				seen[from] = true
			}
			all.Wait()
			require.NoError(t, errors.Join(errs...))
			require.Len(t, seen, 3)
		})
	}
}

// TestLengthsCompared has a sender and a receiver of other lengths, in either order. No payload is written.
func TestLengthsCompared(t *testing.T) {
	meshes := open(t, 2, nil)
	var s Send
	var r Receive
	require.NoError(t, meshes[0].Announce(&s, 1, 5, 100))
	require.NoError(t, meshes[1].Post(&r, 0, 5, 99))
	require.NoError(t, errors.Join(meshes[0].Flush(), meshes[1].Flush()))
	err := drive(meshes[0], func() (bool, error) { return meshes[0].Write(&s, make([]byte, 100)) })
	var e *Mismatch
	require.ErrorAs(t, err, &e)
	require.Equal(t, &Mismatch{Slot: 5, Ours: 100, Theirs: 99, Sends: true}, e)
	err = drive(meshes[1], func() (bool, error) {
		_, err := meshes[1].Arrived(&r, 1, true)
		return false, err
	})
	require.ErrorAs(t, err, &e)
	require.Equal(t, &Mismatch{Slot: 5, Ours: 99, Theirs: 100}, e)
	require.Zero(t, s.sent)
}

// TestPeerGone closes one end. The other gets what was sent before, and then an error; Abort shows at once.
func TestPeerGone(t *testing.T) {
	for _, abort := range []bool{false, true} {
		meshes := open(t, 2, nil)
		var r Receive
		if abort {
			meshes[1].Abort()
		} else {
			require.NoError(t, meshes[0].Post(&r, 1, 3, 10))
			require.NoError(t, meshes[0].Flush())
			require.NoError(t, put(meshes[1], 0, 3, pattern(1, 10)))
			require.NoError(t, meshes[1].Close())
			require.NoError(t, drive(meshes[0], func() (bool, error) {
				n, err := meshes[0].Arrived(&r, 1, true)
				return n == 10, err
			}))
			b := make([]byte, 10)
			_, ok, err := meshes[0].Body(&r, b, 10)
			require.NoError(t, err)
			require.True(t, ok)
			require.True(t, meshes[0].Release(&r, 10, true))
		}
		_, err := get(meshes[0], 1, 4, make([]byte, 1), true) // of the connection that has ended
		require.ErrorIs(t, err, transport.ErrLost)
		var p *transport.PeerError
		require.ErrorAs(t, err, &p)
		require.Equal(t, 1, p.Peer)
	}
}

// TestLazyPeer has a peer that publishes no numbers and connects only when it has something to say.
func TestLazyPeer(t *testing.T) {
	s := store.NewHash()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.2:0") // the larger address dials
	require.NoError(t, err)
	defer l.Close()
	at := l.Addr().(*net.TCPAddr).AddrPort()
	require.NoError(t, s.Set(ctx, "1", (&rankInfo{host: "h", address: address{AddrPort: at}}).encode()))
	m, err := Open(ctx, &Config{Size: 2, Name: "lazy", Rendezvous: s, Host: "127.0.0.1"})
	require.NoError(t, err)
	defer m.Close()
	b, err := s.Get(ctx, "0")
	require.NoError(t, err)
	info, err := decodeRank(b, 2)
	require.NoError(t, err)
	var r Receive
	require.NoError(t, m.Post(&r, 1, 6, 3))
	conn, err := net.Dial("tcp", info.address.String())
	require.NoError(t, err)
	defer conn.Close()
	say := le.AppendUint64(nil, 1)
	say = head{opNoticeSend, 6, 3}.append(say)
	say = append(head{opPayload, 6, 3}.append(say), "abc"...)
	_, err = conn.Write(say)
	require.NoError(t, err)
	got := make([]byte, 3)
	require.NoError(t, drive(m, func() (bool, error) {
		n, err := m.Arrived(&r, 1, true)
		if n < 0 || err != nil {
			return false, err
		}
		_, ok, err := m.Body(&r, got, 3)
		return ok, err
	}))
	require.Equal(t, "abc", string(got))
}

// TestStrangers has others than peers connect while a group forms.
func TestStrangers(t *testing.T) {
	s := store.NewHash()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	meshes := make([]*Mesh, 2)
	errs := make([]error, 2)
	var all sync.WaitGroup
	start := func(rank int, host string) {
		all.Go(func() {
			meshes[rank], errs[rank] = Open(ctx, &Config{Rank: rank, Size: 2, Name: "strangers", Rendezvous: s, Host: host})
		})
	}
	start(0, "127.0.0.1")
	b, err := s.Get(ctx, "0")
	require.NoError(t, err)
	info, err := decodeRank(b, 2)
	require.NoError(t, err)
	for _, said := range [][]byte{nil, []byte("x"), []byte("GET / HTTP/1.1\r\n\r\n"), le.AppendUint64(nil, 0), le.AppendUint64(nil, 2), le.AppendUint64(nil, ^uint64(0))} {
		conn, err := net.Dial("tcp", info.address.String())
		require.NoError(t, err)
		_, err = conn.Write(said)
		require.NoError(t, err)
		if len(said) < 8 {
			defer conn.Close()
		} else {
			conn.SetReadDeadline(time.Now().Add(time.Minute))
			_, err = conn.Read(make([]byte, 1))
			require.Error(t, err, "%q is let in", said)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			conn.Close()
		}
	}
	start(1, "127.0.0.2")
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	go put(meshes[0], 1, 1, []byte("hello"))
	got := make([]byte, 5)
	_, err = get(meshes[1], 0, 1, got, false)
	require.NoError(t, err)
	require.Equal(t, "hello", string(got))
	for _, m := range meshes {
		require.NoError(t, m.Close())
	}
}

// TestOpenFails lets the context end when the rank has published its address and a peer is missing, and publishes what cannot be read.
func TestOpenFails(t *testing.T) {
	for _, d := range []Dialect{New, Old} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := store.NewHash()
		go func() {
			_, _ = s.Get(ctx, "0")
			cancel()
		}()
		_, err := Open(ctx, &Config{Size: 2, Name: "g", Dialect: d, Rendezvous: s, Host: "127.0.0.1"})
		require.ErrorContains(t, err, "rank 1")
		s = store.NewHash()
		require.NoError(t, s.Set(context.Background(), "1", []byte("?")))
		_, err = Open(context.Background(), &Config{Size: 2, Name: "g", Dialect: d, Rendezvous: s, Host: "127.0.0.1"})
		require.ErrorContains(t, err, "rank 1")
	}
	_, err := Open(context.Background(), &Config{Rank: 2, Size: 2})
	require.Error(t, err)
}

// TestFamilies refuses a peer that listens at an address of another family.
func TestFamilies(t *testing.T) {
	requireIPv6(t)
	a, err := decodeAddress(address{AddrPort: addrPort("127.0.0.1:1")}.encode(nil))
	require.NoError(t, err)
	_, err = a.dials(address{AddrPort: addrPort("[::1]:1")})
	require.ErrorContains(t, err, "family")
}

func requireIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here:", err)
	}
	l.Close()
}

// TestTraffic sends messages of random lengths on few slots in both directions at once.
func TestTraffic(t *testing.T) {
	const messages = 200
	meshes := open(t, 2, nil)
	seed := rand.Uint64()
	t.Log("seed", seed)
	var all sync.WaitGroup
	errs := make([]error, 2)
	for rank, m := range meshes {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 0)) // both ranks draw the same
			for i := range messages {
				n := rng.IntN(1 << rng.IntN(18))
				from := rng.IntN(2)
				slot := uint64(rng.IntN(3))
				b := pattern(i, n)
				if rank == from {
					errs[rank] = put(m, 1-rank, slot, b)
				} else {
					got := make([]byte, n)
					_, errs[rank] = get(m, 1-rank, slot, got, i%2 == 0)
					if errs[rank] == nil && !bytes.Equal(got, b) {
						errs[rank] = fmt.Errorf("message %d differs", i)
					}
				}
				if errs[rank] != nil {
					m.Abort()
					return
				}
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
}
