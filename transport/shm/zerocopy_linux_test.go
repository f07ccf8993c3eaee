package shm

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/peermem"
)

// counted is a payload in which no two slots' worths are the same.
func counted(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i ^ i>>8)
	}
	return p
}

// offers offers a frame once more, and reports whether it has been taken.
func offers(t *testing.T, l *link, lane int, p []byte) bool {
	t.Helper()
	over, err := l.SendZeroCopy(&transport.Header{Lane: uint16(lane), Step: 7, Len: uint32(len(p)), Total: uint64(len(p))}, p)
	require.NoError(t, err)
	return over
}

// takes takes what has arrived on a lane: into the link's memory and into the caller's by turns.
func takes(t *testing.T, l *link, lane int) (got []byte, parts int) {
	t.Helper()
	for {
		h, err := l.Head(lane)
		require.NoError(t, err)
		if h == nil {
			return got, parts
		}
		require.Equal(t, uint32(7), h.Step)
		var dst []byte
		if parts%2 == 0 {
			dst = make([]byte, h.Len)
		}
		p, full, err := l.Body(lane, dst)
		require.NoError(t, err)
		if !full {
			return got, parts
		}
		got = append(got, p...)
		l.Release(lane)
		parts++
	}
}

func TestZeroCopy(t *testing.T) {
	out, in := pair(t, nil)
	require.Equal(t, maxZeroCopy, out.MaxZeroCopy())
	for _, n := range []int{1, 8, 9, 256, 257, 512, 10_000} {
		for lane := range 2 {
			p := counted(n)
			require.False(t, offers(t, out, lane, p))
			require.False(t, offers(t, out, lane, p), "nobody has read it")
			got, parts := takes(t, in, lane)
			require.Equal(t, p, got)
			require.Equal(t, (n+255)/256, parts, "slots' worths")
			require.True(t, offers(t, out, lane, p))
			put(t, out, lane, p[:1]) // the lane goes on
			_, err := in.Head(lane)
			require.NoError(t, err)
			in.Release(lane)
		}
	}
}

// A zero-copy frame has the next long slot for its parts, beside other long frames and short ones.
func TestZeroCopyAmongOthers(t *testing.T) {
	out, in := deep(t, nil)
	require.Equal(t, maxZeroCopy, out.MaxZeroCopy())
	send := func(n int) {
		t.Helper()
		ok, err := out.Send(&transport.Header{Step: 7, Len: uint32(n)}, counted(n))
		require.NoError(t, err)
		require.True(t, ok)
	}
	for round := range 3*defaultSlots + 1 {
		long, zero := counted(2*shortBytes), counted(defaultFrame+1000*round+1)
		send(len(long))
		require.False(t, offers(t, out, 0, zero))
		got, _ := takes(t, in, 0)
		require.True(t, bytes.Equal(append(long, zero...), got), "round %d", round)
		require.True(t, offers(t, out, 0, zero))
		for range round % 3 {
			send(shortBytes)
			send(len(long))
		}
		takes(t, in, 0)
	}
}

// The same part is read once, into whichever memory.
func TestZeroCopyBodyTwice(t *testing.T) {
	out, in := pair(t, nil)
	p := counted(100)
	offers(t, out, 0, p)
	_, err := in.Head(0)
	require.NoError(t, err)
	first, _, err := in.Body(0, nil)
	require.NoError(t, err)
	clear(p) // which the sender must not do: it shows where the second call takes the bytes
	second, full, err := in.Body(0, make([]byte, 100))
	require.NoError(t, err)
	require.True(t, full)
	require.Equal(t, first, second)
}

// lostMemory is that of a process which lets nobody read any more, or whose number another process has.
func lostMemory(t *testing.T) *peermem.Memory {
	own := peermem.NewToken()
	m := peermem.Open(os.Getpid(), *own, own.Address())
	require.NotNil(t, m)
	own.Clear()
	return m
}

// TestZeroCopyUnreadable has the peer lose its right to read after some parts. The rest comes by way of the slots, and all that follows.
func TestZeroCopyUnreadable(t *testing.T) {
	for _, after := range []int{0, 1, 3} {
		out, in := pair(t, nil)
		p := counted(1000)
		require.False(t, offers(t, out, 0, p))
		var got []byte
		for range after {
			h, err := in.Head(0)
			require.NoError(t, err)
			part, _, err := in.Body(0, make([]byte, h.Len))
			require.NoError(t, err)
			got = append(got, part...)
			in.Release(0)
		}
		in.in[0].remote.memory = lostMemory(t)
		for over := false; !over; {
			rest, _ := takes(t, in, 0)
			got = append(got, rest...)
			over = offers(t, out, 0, p)
		}
		rest, _ := takes(t, in, 0)
		require.Equal(t, p, append(got, rest...), "after %d parts", after)
		require.Equal(t, maxZeroCopy, out.MaxZeroCopy(), "a lane may have offered another one by it")
		got = nil
		for over := false; !over; {
			over = offers(t, out, 0, p)
			rest, _ := takes(t, in, 0)
			got = append(got, rest...)
		}
		require.Equal(t, p, got, "by way of the slots")
	}
}

// Another process may get the number of one that has died. Its memory is not believed.
func TestZeroCopyOfAStranger(t *testing.T) {
	out, in := pair(t, nil)
	p := counted(300)
	offers(t, out, 0, p)
	in.in[0].remote.memory = lostMemory(t)
	got, _ := takes(t, in, 0)
	require.Empty(t, got)
	require.True(t, offers(t, out, 0, p), "by way of the slots")
	got, _ = takes(t, in, 0)
	require.Equal(t, p, got)
}

// TestZeroCopyWithdrawn has a sender give up before the peer looks, before it reads, and between two parts. The peer never takes bytes
// that the sender writes into its memory afterwards.
func TestZeroCopyWithdrawn(t *testing.T) {
	for _, at := range []string{"before the look", "before the read", "between parts"} {
		t.Run(at, func(t *testing.T) {
			out, in := pair(t, nil)
			p := counted(600)
			require.False(t, offers(t, out, 0, p))
			if at != "before the look" {
				h, err := in.Head(0)
				require.NoError(t, err)
				require.NotNil(t, h)
			}
			if at == "between parts" {
				_, full, err := in.Body(0, nil)
				require.NoError(t, err)
				require.True(t, full)
				in.Release(0)
			}
			out.Withdraw()
			clear(p)
			got, _ := takes(t, in, 0)
			require.Empty(t, got)
			h, err := in.Head(0)
			require.NoError(t, err)
			require.Nil(t, h, "no frame any more, and no error: the control channel tells why")
		})
	}
}

// Close withdraws, too: the peer then learns that this rank has left.
func TestZeroCopyClose(t *testing.T) {
	out, in := pair(t, nil)
	require.False(t, offers(t, out, 0, counted(600)))
	require.NoError(t, out.mesh.Close())
	require.Zero(t, out.MaxZeroCopy())
	out.Withdraw()
	require.Eventually(t, func() bool {
		h, err := in.Head(0)
		require.Nil(t, h)
		return err != nil
	}, limit, limit/1000)
	_, err := in.Head(0)
	require.ErrorIs(t, err, transport.ErrGoodbye)
}

// A frame that was read is over for its sender, though the peer has left since.
func TestZeroCopyReadBeforeGoodbye(t *testing.T) {
	out, in := pair(t, nil)
	p := counted(600)
	offers(t, out, 0, p)
	got, _ := takes(t, in, 0)
	require.Equal(t, p, got)
	require.NoError(t, in.mesh.Close())
	require.Eventually(t, func() bool { return out.ending.Load() != nil }, limit, limit/1000)
	require.True(t, offers(t, out, 0, p))
	_, err := out.SendZeroCopy(&transport.Header{Len: 600}, p)
	require.ErrorIs(t, err, transport.ErrGoodbye)
}

// With checksums all payloads go by way of the slots.
func TestZeroCopyChecksum(t *testing.T) {
	out, _ := pair(t, func(c *transport.Config) { c.Checksum = true })
	require.Zero(t, out.MaxZeroCopy())
}

// Lines that a hostile peer may have written.
func TestZeroCopyCorrupt(t *testing.T) {
	for name, spoil := range map[string]func(out, in *link){
		"place":     func(out, _ *link) { out.out[0].lines.at(0).place = inSender + 1 },
		"length":    func(out, _ *link) { out.out[0].lines.at(0).length = maxZeroCopy + 1 },
		"not asked": func(_, in *link) { in.in[0].limits[inSender] = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			out, in := pair(t, nil)
			offers(t, out, 0, counted(600))
			spoil(out, in)
			_, err := in.Head(0)
			require.ErrorIs(t, err, transport.ErrCorrupt)
		})
	}
	t.Run("bytes read", func(t *testing.T) {
		out, in := pair(t, nil)
		p := counted(600)
		offers(t, out, 0, p)
		in.in[0].got.Store(1 << 60)
		in.in[0].unread.Store(1)
		in.in[0].taken.Store(1)
		require.True(t, offers(t, out, 0, p), "nothing is sent that the sender does not have")
	})
	t.Run("address", func(t *testing.T) {
		out, in := pair(t, nil)
		p := counted(600)
		offers(t, out, 0, p)
		binary.LittleEndian.PutUint64(out.out[0].lines.at(0).tail[:], 1)
		got, _ := takes(t, in, 0)
		require.Empty(t, got)
		for over := false; !over; {
			over = offers(t, out, 0, p)
			part, _ := takes(t, in, 0)
			got = append(got, part...)
		}
		require.Equal(t, p, got, "what cannot be read is copied")
	})
}

func TestZeroCopyAllocates(t *testing.T) {
	out, in := pair(t, nil)
	h, p := &transport.Header{Len: 600}, counted(600)
	dst := make([]byte, 256)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = out.SendZeroCopy(h, p)
		for {
			h, _ := in.Head(0)
			if h == nil {
				break
			}
			_, _, _ = in.Body(0, dst[:h.Len])
			in.Release(0)
		}
		_, _ = out.SendZeroCopy(h, p)
	}))
}

// TestPeerMemory has a link read the memory of its peer's process.
func TestPeerMemory(t *testing.T) {
	_, in := pair(t, nil)
	m := in.in[0].remote.memory
	require.NotNil(t, m)
	var got peermem.Token
	require.True(t, m.Read(got[:], ownToken().Address()))
	require.Equal(t, *ownToken(), got)
}

// TestOpenTouchesHeadsAlone has the regions of a group's segments take no memory before a frame is sent.
func TestOpenTouchesHeadsAlone(t *testing.T) {
	meshes := open(t, 3, nil)
	for rank, opened := range meshes {
		m := opened.(*mesh)
		pages := resident(t, m.own)
		require.Equal(t, 1, pages, "rank %d", rank)
		for peer, l := range m.links {
			if l != nil {
				require.Equal(t, maxZeroCopy, l.MaxZeroCopy(), "rank %d has the answer of rank %d", rank, peer)
			}
		}
		require.Equal(t, pages, resident(t, m.own), "rank %d", rank)
	}
}

// resident counts the pages of a mapped segment that take memory.
func resident(t *testing.T, b []byte) int {
	t.Helper()
	pages := make([]byte, roundUp(len(b), os.Getpagesize())/os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&pages[0])))
	require.Zero(t, errno)
	n := 0
	for _, p := range pages {
		n += int(p & 1)
	}
	return n
}
