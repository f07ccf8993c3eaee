package tcp

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/transporttest"
)

// raw is a frame with any header.
func raw(h transport.Header, body ...byte) []byte {
	var b [transport.HeaderSize]byte
	h.Encode(&b)
	return append(b[:], body...)
}

func packed(p []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(p))), p...)
}

func TestCorrupt(t *testing.T) {
	zeros := make([]byte, 1<<20)
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	flipped := raw(transport.Header{Lane: 3})
	flipped[20] ^= 4
	const sum, comp = transport.FlagChecksum, transport.FlagCompressed
	for _, test := range []struct {
		name, compression string
		bytes             []byte
		want              string
	}{
		{"garbage", "", []byte("GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: somebody else entirely\r\n\r\n"), "header begins with"},
		{"header", "", flipped, "header checksum"},
		{"lane", "", raw(transport.Header{Lane: 2}), "frame of lane 2 on lane 3"},
		{"long", "", raw(transport.Header{Lane: 3, Len: testFrame + 64}), "the limit of this group is"},
		{"flags", "", raw(transport.Header{Lane: 3, Flags: 8}), "flags 0x8"},
		{"uninvited", "", raw(transport.Header{Lane: 3, Flags: comp, Len: 100}), "a group without compression"},
		{"payload", "", raw(transport.Header{Lane: 3, Flags: sum, Len: 2}, 'h', 'i', 1, 2, 3, 4), "payload checksum"},
		{"packed longer", "s2", raw(transport.Header{Lane: 3, Flags: comp, Len: 2000}, 255, 255, 255, 255), "4294967295 compressed bytes for a payload of 2000"},
		{"packed empty", "s2", raw(transport.Header{Lane: 3, Flags: comp, Len: 2000}, 0, 0, 0, 0), "0 compressed bytes"},
		{"s2 garbage", "s2", raw(transport.Header{Lane: 3, Flags: comp, Len: 2000}, packed(zeros[:100])...), "s2 block of 0 bytes"},
		{"s2 bomb", "s2", raw(transport.Header{Lane: 3, Flags: comp, Len: 2000}, packed(s2.Encode(nil, zeros))...), "s2 block of 1048576 bytes where the header says 2000"},
		{"zstd garbage", "zstd", raw(transport.Header{Lane: 3, Flags: comp, Len: 2000}, packed(zeros[:100])...), "corrupt frame"},
		{"zstd bomb", "zstd", raw(transport.Header{Lane: 3, Flags: comp, Len: 2000}, packed(z.EncodeAll(zeros, nil))...), "zstd frame of 1048576 bytes where the header says 2000"},
	} {
		for _, into := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				_, in, s := ends(t, 1, 50, test.compression, false)
				s.Buffer.Write(test.bytes)
				err := untilError(in, into)
				require.ErrorIs(t, err, transport.ErrCorrupt)
				require.ErrorContains(t, err, test.want)
				s.Buffer.Write(raw(transport.Header{Lane: 3}))
				require.Equal(t, err, untilError(in, into), "damage is for ever")
			})
		}
	}
}

func untilError(in *receiver, into bool) error {
	for {
		h, err := in.head()
		if err != nil {
			return err
		}
		if h == nil {
			continue
		}
		var dst []byte
		if into {
			dst = make([]byte, h.Len)
		}
		_, ok, err := in.body(dst)
		if err != nil {
			return err
		}
		if ok {
			in.release()
		}
	}
}

// TestCorruptLane puts garbage on one data connection of a formed group. The link fails at once and for ever, naming the
// peer; the link to the third rank goes on.
func TestCorruptLane(t *testing.T) {
	transporttest.NoLeaks(t)
	meshes := opener(func(*transport.Config) {})(t, 3, nil)
	garbage := make([]byte, 200)
	for i := range garbage {
		garbage[i] = byte(rand.Uint32())
	}
	_, err := meshes[1].(*mesh).links[0].lanes[2].stream.Write([][]byte{garbage})
	require.NoError(t, err)
	_, _, err = receive(meshes[0], 1, 2, nil)
	require.ErrorIs(t, err, transport.ErrCorrupt)
	var pe *transport.PeerError
	require.ErrorAs(t, err, &pe)
	require.Equal(t, 1, pe.Peer)
	_, again := meshes[0].Link(1).Head(0)
	require.Equal(t, err, again)
	_, again = meshes[0].Link(1).Send(&transport.Header{}, nil)
	require.Equal(t, err, again)
	require.NoError(t, sendAll(meshes[2], 0, transport.Header{}, []byte("fine")))
	_, p, err := receive(meshes[0], 2, 0, nil)
	require.NoError(t, err)
	require.Equal(t, "fine", string(p))
}
