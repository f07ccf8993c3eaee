package gloo

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/peermem"
)

// FuzzHead reads any head of a message. A head that is accepted is written again as it was, but for fields without a meaning.
func FuzzHead(f *testing.F) {
	for _, h := range []head{{opPayload, Slot(4, 0), 12}, {opNoticeSend, 7, 0}, {opNoticeRecv, 1 << 63, 1 << 40}} {
		f.Add(h.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < headSize {
			return
		}
		b = b[:headSize]
		h, err := decodeHead(b)
		if err != nil {
			require.ErrorIs(t, err, ErrProtocol)
			return
		}
		again := h.append(nil)
		clear(b[24:32])
		clear(b[40:48])
		require.Equal(t, b, again)
	})
}

// FuzzRank reads anything as what a rank of New has published.
func FuzzRank(f *testing.F) {
	at := address{AddrPort: addrPort("127.0.0.1:39441")}
	f.Add((&rankInfo{host: "vm", address: at, ids: []uint64{0, 1}}).encode(), 2)
	f.Add((&rankInfo{address: address{AddrPort: addrPort("[fe80::1]:1"), scope: 3}}).encode(), 5)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		if size < 1 || size > 64 {
			return
		}
		r, err := decodeRank(b, size)
		if err != nil {
			return
		}
		again, err := decodeRank(r.encode(), size)
		require.NoError(t, err)
		require.Equal(t, r, again)
		require.NotEmpty(t, r.address.target())
	})
}

// FuzzAddresses reads anything as what a rank of Old has published.
func FuzzAddresses(f *testing.F) {
	at := address{AddrPort: addrPort("127.0.0.1:39441")}
	f.Add(at.encode(at.encode(nil)), 1, 2, 3)
	f.Fuzz(func(t *testing.T, b []byte, rank, reader, size int) {
		if size < 2 || size > 64 || rank < 0 || rank >= size || reader < 0 || reader >= size || reader == rank {
			return
		}
		a, err := decodeAddresses(b, rank, reader, size)
		if err != nil {
			return
		}
		again, err := decodeAddress(a.encode(nil))
		require.NoError(t, err)
		require.Equal(t, a.AddrPort, again.AddrPort)
		_, _ = a.dials(again)
	})
}

// FuzzIntroduction reads anything as the number by which a peer introduces itself.
func FuzzIntroduction(f *testing.F) {
	f.Add(le.AppendUint64(nil, 1), 2)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		if len(b) < 8 || size < 1 || size > 1<<16 {
			return
		}
		if peer, err := peerOf(b[:8], 0, size); err == nil {
			require.Positive(t, peer)
			require.Less(t, peer, size)
		}
	})
}

// tape is a stream that hands out bytes in pieces of a length, and takes everything.
type tape struct {
	in    []byte
	piece int
	out   int
}

func (t *tape) Read(bufs [][]byte) (total int, err error) {
	if len(t.in) == 0 {
		return 0, io.EOF
	}
	left := t.piece
	for _, b := range bufs {
		n := copy(b[:min(len(b), left)], t.in)
		t.in, left, total = t.in[n:], left-n, total+n
	}
	return total, nil
}

func (t *tape) Write(bufs [][]byte) (total int, err error) {
	for _, b := range bufs {
		total += len(b)
	}
	t.out += total
	return total, nil
}

func (t *tape) Finish()       {}
func (t *tape) Flushed() bool { return true }
func (t *tape) Close()        {}

// FuzzConversation has a peer of PyTorch say anything. The rank has receives posted on two slots, one of them from any, and a send
// announced on a third. Nothing panics, no payload is written without a notice, and no more memory is held than was said.
func FuzzConversation(f *testing.F) { fuzzConversation(f, func(*pair) {}) }

// FuzzZeroCopy has a peer of this package say anything, whose memory can be read and who can read.
func FuzzZeroCopy(f *testing.F) {
	own := peermem.NewToken()
	fuzzConversation(f, func(p *pair) {
		p.ours, p.reads, p.memory = true, true, peermem.Open(os.Getpid(), *own, own.Address())
	})
}

func fuzzConversation(f *testing.F, meet func(*pair)) {
	say := func(all ...any) []byte {
		var b []byte
		for _, a := range all {
			switch a := a.(type) {
			case head:
				b = a.append(b)
			case string:
				b = append(b, a...)
			}
		}
		return b
	}
	f.Add(say(head{opNoticeSend, 1, 3}, head{opPayload, 1, 3}, "abc", head{opNoticeRecv, 3, 4}), 1000)
	f.Add(say(head{opNoticeSend, 2, 5}, head{opNoticeSend, 2, 5}, head{opPayload, 2, 5}, "hello", head{opNoticeRecv, 3, 5}), 7)
	f.Add(say(head{opPayload, 1, 3}, "abc"), 1)
	f.Add(say(head{opNoticeRecv, 9, 1 << 40}, head{opNoticeSend, 9, 1}), 48)
	f.Add(say(head{op: opReads}, head{opNoticeSend, 1, 3}, head{opRemote, 1, 3}, head{opPayload, 1, 3}, "abc"), 1000)
	f.Add(say(head{opNoticeSend, 2, 5}, head{opRemote, 2, 5}, head{opTaken, 3, 4}), 96)
	f.Fuzz(func(t *testing.T, said []byte, piece int) {
		if piece < 1 {
			return
		}
		w := &tape{in: bytes.Clone(said), piece: piece}
		m := &Mesh{size: 2, pairs: make([]*pair, 2)}
		p := newPair(m, 1)
		p.stream, m.pairs[1] = w, p
		meet(p)
		var direct, any Receive
		var s Send
		require.NoError(t, m.Post(&direct, 1, 1, 3))
		require.NoError(t, m.Post(&any, AnyPeer, 2, 5))
		require.NoError(t, m.Announce(&s, 1, 3, 4))
		require.NoError(t, m.Flush())
		before := w.out
		err := converse(m, &direct, &any, &s)
		require.Error(t, err) // at the latest the end of the stream
		if s.begun {
			require.Contains(t, string(said), string(head{opNoticeRecv, 3, 4}.append(nil)[8:24]))
		} else {
			require.LessOrEqual(t, w.out-before, headSize*2, "something was written that nobody asked for")
		}
		require.LessOrEqual(t, p.pending, len(said)/headSize)
		if !errors.Is(err, ErrProtocol) && !errors.Is(err, transport.ErrLost) {
			var e *Mismatch
			require.ErrorAs(t, err, &e)
		}
	})
}

// converse goes on with two receives and a send, by turns, until something is wrong.
func converse(m *Mesh, direct, other *Receive, s *Send) error {
	into, sent := make([]byte, 3), false
	receives := []*Receive{direct, other}
	for len(receives) > 0 {
		for i := 0; i < len(receives); i++ {
			over, err := advance(m, receives[i], into, receives[i] == direct)
			if err != nil {
				return err
			}
			if over {
				receives = append(receives[:i:i], receives[i+1:]...)
			}
		}
		if !sent {
			ok, err := m.Write(s, []byte("abcd"))
			if err != nil {
				return err
			}
			sent = ok
		}
	}
	var last Receive
	if err := m.Post(&last, 1, 4, 1); err != nil {
		return err
	}
	for {
		if over, err := advance(m, &last, nil, false); err != nil || over {
			return errors.Join(err, m.failed(m.pairs[1], transport.ErrLost))
		}
	}
}

// advance takes what has come of one receive.
func advance(m *Mesh, r *Receive, into []byte, direct bool) (over bool, err error) {
	n, err := m.Arrived(r, 1, direct)
	if err != nil || n < 0 {
		return false, err
	}
	var dst []byte
	if direct {
		dst = into
	}
	_, ok, err := m.Body(r, dst, n)
	return ok && m.Release(r, n, direct), err
}
