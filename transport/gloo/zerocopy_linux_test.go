package gloo

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/peermem"
	"github.com/colligo-go/colligo/transport/internal/stream"
)

// written counts the bytes that a stream has taken.
type written struct {
	stream.Stream
	n int
}

func (w *written) Write(bufs [][]byte) (int, error) {
	n, err := w.Stream.Write(bufs)
	w.n += n
	return n, err
}

const longest = 3 << 20

// zeroCopying links two ranks, the first of which has been told that the second can read its memory. It counts what that rank writes.
func zeroCopying(t *testing.T, change func(*Config)) ([]*Mesh, *written) {
	meshes := open(t, 2, change)
	p := meshes[0].pairs[1]
	require.NoError(t, meshes[1].Flush())
	require.NoError(t, drive(meshes[0], func() (bool, error) {
		err := p.pull()
		return p.reads, err
	}))
	w := &written{Stream: p.stream}
	p.stream = w
	return meshes, w
}

// zeroCopied begins to send a payload to a receive that is posted.
func zeroCopied(t *testing.T, m *Mesh, payload []byte) *Send {
	s := new(Send)
	require.NoError(t, m.Announce(s, 1, 5, len(payload)))
	require.NoError(t, drive(m, func() (bool, error) {
		ok, err := m.Write(s, payload)
		require.False(t, ok, "sent before the receiver has it")
		return s.zeroCopy, err
	}))
	return s
}

// posted posts a receive.
func posted(t *testing.T, m *Mesh, n int) *Receive {
	r := new(Receive)
	require.NoError(t, m.Post(r, 0, 5, n))
	require.NoError(t, m.Flush())
	return r
}

// parts receives a payload by parts, as one that is reduced, until so many bytes have come or nothing is there.
func parts(m *Mesh, r *Receive, most int) (got []byte, over bool, err error) {
	for len(got) < most && !over {
		n, err := m.Arrived(r, 8, false)
		if n < 0 || err != nil {
			return got, false, err
		}
		part, ok, err := m.Body(r, nil, n)
		if !ok || err != nil {
			return got, false, err
		}
		got = append(got, part...)
		over = m.Release(r, n, false)
	}
	return got, over, nil
}

// TestZeroCopy has ranks of one host move a payload without the connection, in both dialects.
func TestZeroCopy(t *testing.T) {
	for _, dialect := range []Dialect{New, Old} {
		for _, direct := range []bool{true, false} {
			t.Run(fmt.Sprintf("dialect %d, direct %v", dialect, direct), func(t *testing.T) {
				meshes, w := zeroCopying(t, func(c *Config) { c.Dialect = dialect })
				payload := pattern(0, longest)
				r := posted(t, meshes[1], longest)
				s := zeroCopied(t, meshes[0], payload)
				got := make([]byte, longest)
				require.NoError(t, take(meshes[1], r, got, direct))
				require.True(t, bytes.Equal(payload, got))
				require.NoError(t, drive(meshes[0], func() (bool, error) { return meshes[0].Write(s, payload) }))
				require.True(t, s.Done())
				require.Equal(t, 2*headSize, w.n, "a notice and the head")
				require.Empty(t, meshes[0].pairs[1].zeroCopies)
				require.Empty(t, meshes[1].pairs[0].remotes)
			})
		}
	}
}

// TestZeroCopyUnreadable has the receiver lose its right to read after some parts. The rest comes by the connection, and so does all that
// follows.
func TestZeroCopyUnreadable(t *testing.T) {
	for _, after := range []int{0, 1, 3} {
		t.Run(fmt.Sprint("after ", after), func(t *testing.T) {
			meshes, w := zeroCopying(t, nil)
			payload := pattern(0, longest)
			r := posted(t, meshes[1], longest)
			s := zeroCopied(t, meshes[0], payload)
			var got []byte
			require.NoError(t, drive(meshes[1], func() (bool, error) {
				more, _, err := parts(meshes[1], r, after*partBytes-len(got))
				got = append(got, more...)
				err = errors.Join(err, meshes[1].pairs[0].pull())
				return len(got) == after*partBytes && r.remote, err
			}))
			meshes[1].pairs[0].memory = lostMemory(t)
			sent := make(chan error, 1)
			go func() {
				sent <- errors.Join(drive(meshes[0], func() (bool, error) { return meshes[0].Write(s, payload) }), put(meshes[0], 1, 6, payload))
			}()
			require.NoError(t, drive(meshes[1], func() (bool, error) {
				more, over, err := parts(meshes[1], r, longest)
				got = append(got, more...)
				return over, err
			}))
			require.True(t, bytes.Equal(payload, got))
			next := make([]byte, longest)
			_, err := get(meshes[1], 0, 6, next, true)
			require.NoError(t, errors.Join(err, <-sent))
			require.True(t, bytes.Equal(payload, next))
			require.Greater(t, w.n, 2*longest-after*partBytes)
		})
	}
}

// TestZeroCopyByTwo has two goroutines read a long payload. It counts only if both could read all they took.
func TestZeroCopyByTwo(t *testing.T) {
	const n = twoBytes + partBytes/2 + 1
	meshes, w := zeroCopying(t, nil)
	p := meshes[1].pairs[0]
	payload, got := pattern(0, n), make([]byte, n)
	r := posted(t, meshes[1], n)
	s := zeroCopied(t, meshes[0], payload)
	require.NoError(t, take(meshes[1], r, got, true))
	require.True(t, bytes.Equal(payload, got))
	require.NoError(t, drive(meshes[0], func() (bool, error) { return meshes[0].Write(s, payload) }))
	require.Equal(t, 2*headSize, w.n, "a notice and the head")
	require.NotNil(t, p.second, "there was a second reader")

	at, readable := peermem.Address(payload), p.memory
	require.True(t, p.copyParts(got, at))
	p.second = lostMemory(t)
	require.Eventually(t, func() bool { return !p.copyParts(got, at) }, time.Minute, time.Millisecond, "the second goroutine cannot read")
	p.memory, p.second = p.second, readable
	require.Eventually(t, func() bool { return !p.copyParts(got, at) }, time.Minute, time.Millisecond, "the first cannot")
}

// TestZeroCopyByTwoUnreadable has neither goroutine read anything. The connection brings the payload.
func TestZeroCopyByTwoUnreadable(t *testing.T) {
	const n = 2 * twoBytes
	meshes, w := zeroCopying(t, nil)
	meshes[1].pairs[0].memory = lostMemory(t)
	payload, got := pattern(0, n), make([]byte, n)
	r := posted(t, meshes[1], n)
	s := zeroCopied(t, meshes[0], payload)
	sent := make(chan error, 1)
	go func() { sent <- drive(meshes[0], func() (bool, error) { return meshes[0].Write(s, payload) }) }()
	require.NoError(t, errors.Join(take(meshes[1], r, got, true), <-sent))
	require.True(t, bytes.Equal(payload, got))
	require.Greater(t, w.n, n)
}

// lostMemory is that of a process which lets nobody read any more.
func lostMemory(t *testing.T) *peermem.Memory {
	own := peermem.NewToken()
	m := peermem.Open(os.Getpid(), *own, own.Address())
	require.NotNil(t, m)
	own.Clear()
	return m
}

// TestZeroCopyWithdrawn has the sender fail, and its caller write to the memory that the peer may still read. The peer does not take it for the
// payload.
func TestZeroCopyWithdrawn(t *testing.T) {
	meshes, _ := zeroCopying(t, nil)
	payload := pattern(0, longest)
	r := posted(t, meshes[1], longest)
	zeroCopied(t, meshes[0], payload)
	require.NoError(t, drive(meshes[1], func() (bool, error) {
		err := meshes[1].pairs[0].pull()
		return r.remote, err
	}))
	meshes[0].Withdraw()
	clear(payload)
	got, over, err := parts(meshes[1], r, longest)
	require.NoError(t, err)
	require.False(t, over)
	require.Empty(t, got)
	meshes[0].Abort()
	require.ErrorIs(t, take(meshes[1], r, make([]byte, longest), true), transport.ErrLost)
}

// TestZeroCopyKept has a payload for which nobody asks taken aside, so that its send ends.
func TestZeroCopyKept(t *testing.T) {
	meshes, _ := zeroCopying(t, nil)
	payload := pattern(0, longest)
	r := posted(t, meshes[1], longest)
	s := zeroCopied(t, meshes[0], payload)
	require.NoError(t, drive(meshes[1], func() (bool, error) {
		err := meshes[1].pairs[0].pull()
		return r.whole(), err
	}))
	require.NoError(t, drive(meshes[0], func() (bool, error) { return meshes[0].Write(s, payload) }))
	clear(payload)
	got := make([]byte, longest)
	require.NoError(t, take(meshes[1], r, got, true))
	require.True(t, bytes.Equal(pattern(0, longest), got))
}

// TestZeroCopyThenGone has the receiver leave as soon as it has the payload. Its sender has nothing to complain of.
func TestZeroCopyThenGone(t *testing.T) {
	meshes, _ := zeroCopying(t, nil)
	payload := pattern(0, longest)
	r := posted(t, meshes[1], longest)
	s := zeroCopied(t, meshes[0], payload)
	require.NoError(t, take(meshes[1], r, make([]byte, longest), true))
	gone := make(chan error, 1)
	go func() { gone <- meshes[1].Close() }()
	time.Sleep(20 * time.Millisecond) // so that the connection's end has come, too
	require.NoError(t, drive(meshes[0], func() (bool, error) { return meshes[0].Write(s, payload) }))
	require.NoError(t, meshes[0].Close())
	require.NoError(t, <-gone)
}

// held is a stream that takes nothing for a while.
type held struct {
	stream.Stream
	holds bool
}

func (h *held) Write(bufs [][]byte) (int, error) {
	if h.holds {
		return 0, nil
	}
	return h.Stream.Write(bufs)
}

// TestZeroCopyTold has the receiver's connection take nothing until the payload has been read, however it is received. The receive is not over
// before the peer is sure to learn of it, and the bytes are there once.
func TestZeroCopyTold(t *testing.T) {
	for _, way := range []string{"direct", "by parts", "kept"} {
		t.Run(way, func(t *testing.T) {
			meshes, _ := zeroCopying(t, nil)
			p := meshes[1].pairs[0]
			payload := pattern(0, longest)
			r := posted(t, meshes[1], longest)
			h := &held{Stream: p.stream, holds: true}
			p.stream = h
			s := zeroCopied(t, meshes[0], payload)
			if way == "kept" {
				require.NoError(t, drive(meshes[1], func() (bool, error) {
					err := p.pull()
					meshes[1].Relieve()
					return r.whole(), err
				}))
			}
			got, over := make([]byte, 0, longest), false
			step := func() error {
				for !over {
					n, err := meshes[1].Arrived(r, 8, way != "by parts")
					if n < 0 || err != nil {
						return err
					}
					var dst []byte
					if way != "by parts" {
						dst = got[len(got) : len(got)+n]
					}
					b, ok, err := meshes[1].Body(r, dst, n)
					if !ok || err != nil {
						return err
					}
					got = append(got, b...)
					over = meshes[1].Release(r, n, dst != nil)
				}
				return nil
			}
			require.NoError(t, drive(meshes[1], func() (bool, error) { return r.tells, step() }))
			for range 3 {
				require.NoError(t, step())
				require.False(t, over, "the peer has not been told")
			}
			ok, err := meshes[0].Write(s, payload)
			require.NoError(t, err)
			require.False(t, ok)
			h.holds = false
			require.NoError(t, step())
			require.True(t, over)
			require.True(t, bytes.Equal(payload, got))
			require.NoError(t, drive(meshes[0], func() (bool, error) { return meshes[0].Write(s, payload) }))
		})
	}
}

// TestZeroCopyAmid has a payload read in the peer's memory while another one has come by the connection in part. Neither harms the other.
func TestZeroCopyAmid(t *testing.T) {
	meshes, _ := zeroCopying(t, nil)
	payload, short := pattern(0, longest), pattern(1, zeroCopyBytes-1)
	r, other := posted(t, meshes[1], longest), new(Receive)
	require.NoError(t, meshes[1].Post(other, 0, 6, len(short)))
	require.NoError(t, meshes[1].Flush())
	s, s2 := zeroCopied(t, meshes[0], payload), new(Send)
	part := &slowly{Stream: meshes[0].pairs[1].stream, left: 4*headSize + 1000}
	meshes[0].pairs[1].stream = part
	require.NoError(t, meshes[0].Announce(s2, 1, 6, len(short)))
	got := make([]byte, len(short))
	took := func() (bool, error) {
		n, err := meshes[1].Arrived(other, 8, true)
		if n < 0 || err != nil {
			return false, err
		}
		_, ok, err := meshes[1].Body(other, got, n)
		return ok, err
	}
	require.NoError(t, drive(meshes[1], func() (bool, error) {
		_, err := meshes[0].Write(s2, short)
		require.NoError(t, err)
		_, err = took()
		return meshes[1].pairs[0].landed > 0, err
	}))
	long := make([]byte, longest)
	require.NoError(t, take(meshes[1], r, long, true))
	require.True(t, bytes.Equal(payload, long))
	part.left = longest
	require.NoError(t, drive(meshes[1], func() (bool, error) {
		_, err := meshes[0].Write(s2, short)
		require.NoError(t, err)
		return took()
	}))
	require.True(t, bytes.Equal(short, got))
	require.True(t, meshes[1].Release(other, len(short), true))
	require.NoError(t, drive(meshes[0], func() (bool, error) { return meshes[0].Write(s, payload) }))
}

// TestZeroCopyInOrder has two payloads on one slot, the second of which is asked for first. A sender gets its memory back when its own payload
// has been read, also where the peer has to write them.
func TestZeroCopyInOrder(t *testing.T) {
	for _, readable := range []bool{true, false} {
		t.Run(fmt.Sprint("readable ", readable), func(t *testing.T) {
			meshes, _ := zeroCopying(t, nil)
			if !readable {
				meshes[1].pairs[0].memory = lostMemory(t)
			}
			var sends [2]Send
			var recvs [2]*Receive
			var payloads, got [2][]byte
			var over, done [2]bool
			rounds := 0
			for i := range sends {
				payloads[i], got[i] = pattern(i, longest), make([]byte, longest)
				recvs[i] = posted(t, meshes[1], longest)
				require.NoError(t, meshes[0].Announce(&sends[i], 1, 5, longest))
			}
			require.NoError(t, drive(meshes[0], func() (bool, error) {
				for i := range sends {
					if !done[i] {
						ok, err := meshes[0].Write(&sends[i], payloads[i])
						if err != nil {
							return false, err
						}
						if done[i] = ok; ok && readable {
							require.True(t, over[i], "payload %d is the sender's again", i)
							clear(payloads[i])
						}
					}
				}
				asked := []int{1, 0}
				if rounds++; rounds < 20 {
					asked = []int{1}
				}
				for _, i := range asked {
					if over[i] {
						continue
					}
					n, err := meshes[1].Arrived(recvs[i], 8, true)
					if err != nil {
						return false, err
					}
					if n < 0 {
						continue
					}
					if _, ok, err := meshes[1].Body(recvs[i], got[i], n); !ok || err != nil {
						return false, err
					}
					over[i] = meshes[1].Release(recvs[i], n, true)
				}
				return over == [2]bool{true, true} && done == over, nil
			}))
			for i := range got {
				require.True(t, bytes.Equal(pattern(i, longest), got[i]), "payload %d", i)
			}
			require.Empty(t, meshes[0].pairs[1].zeroCopies)
		})
	}
}

// slowly is a stream that takes so many bytes.
type slowly struct {
	stream.Stream
	left int
}

func (s *slowly) Write(bufs [][]byte) (int, error) {
	if len(bufs[0]) > s.left {
		bufs = [][]byte{bufs[0][:s.left]}
	} else if len(bufs) > 1 {
		bufs = [][]byte{bufs[0], bufs[1][:min(len(bufs[1]), s.left-len(bufs[0]))]}
	}
	n, err := s.Stream.Write(bufs)
	s.left -= n
	return n, err
}

// TestZeroCopyByStrangers has peers say what only ranks of this package may say, or say it out of turn. Each ends the mesh.
func TestZeroCopyByStrangers(t *testing.T) {
	own := peermem.NewToken()
	unreadable := markOf(own)
	unreadable[16]++ // another address than the token's
	for name, c := range map[string]struct {
		mark mark
		say  []head
	}{
		"reads, of PyTorch":      {mark{}, []head{{op: opReads}}},
		"taken, of PyTorch":      {mark{}, []head{{opTaken, 6, 0}}},
		"remote, of PyTorch":     {mark{}, []head{{opNoticeSend, 6, 3}, {opRemote, 6, 3}}},
		"taken, nothing offered": {markOf(own), []head{{opTaken, 6, 0}}},
		"remote, unreadable":     {unreadable, []head{{opNoticeSend, 6, 3}, {opRemote, 6, 3}}},
		"remote, unannounced":    {markOf(own), []head{{opRemote, 6, 3}}},
		"remote, not posted":     {markOf(own), []head{{opRemote, 7, 3}}},
		"another opcode":         {markOf(own), []head{{opTaken + 1, 6, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := store.NewHash()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer l.Close()
			at := address{AddrPort: l.Addr().(*net.TCPAddr).AddrPort(), mark: c.mark}
			require.NoError(t, s.Set(t.Context(), "1", (&rankInfo{host: "h", address: at, ids: []uint64{0, 1}}).encode()))
			m, err := Open(t.Context(), &Config{Size: 2, Name: "strange", Rendezvous: s, Host: "127.0.0.2"}) // the larger address dials
			require.NoError(t, err)
			defer m.Close()
			conn, err := l.Accept()
			require.NoError(t, err)
			defer conn.Close()
			var r Receive
			require.NoError(t, m.Post(&r, 1, 6, 3))
			var said []byte
			for _, h := range c.say {
				said = h.append(said)
			}
			_, err = conn.Write(said)
			require.NoError(t, err)
			require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
			require.ErrorIs(t, take(m, &r, make([]byte, 3), true), ErrProtocol)
		})
	}
}
