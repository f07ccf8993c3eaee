package transport

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func sampleHeader() Header {
	return Header{
		Call: Call{Group: 0xdeadbeef, Coll: 3, DType: 9, Op: 2, Seq: 1 << 40, Count: 1<<50 + 1, Root: -5},
		Lane: 63, Flags: FlagChecksum | FlagCompressed, Step: 77, Len: MaxFrame, Total: 1 << 45,
	}
}

func TestHeaderRoundTrip(t *testing.T) {
	for _, h := range []Header{{}, sampleHeader()} {
		var b [HeaderSize]byte
		h.Encode(&b)
		var got Header
		require.NoError(t, got.Decode(&b))
		require.Equal(t, h, got)
	}
}

// TestHeaderDamage flips every bit of an encoded header: each flip is noticed.
func TestHeaderDamage(t *testing.T) {
	h := sampleHeader()
	var good [HeaderSize]byte
	h.Encode(&good)
	for bit := range HeaderSize * 8 {
		b := good
		b[bit/8] ^= 1 << (bit % 8)
		var got Header
		require.ErrorIs(t, got.Decode(&b), ErrCorrupt, "bit %d", bit)
	}
}

func TestHeaderLimits(t *testing.T) {
	for _, f := range []func(*Header){
		func(h *Header) { h.Len = MaxFrame + 1 },
		func(h *Header) { h.Lane = MaxLanes },
	} {
		h := sampleHeader()
		f(&h)
		var b [HeaderSize]byte
		h.Encode(&b)
		var got Header
		require.ErrorIs(t, got.Decode(&b), ErrCorrupt)
	}
}

// FuzzHeaderDecode decodes anything, with the checksum made right so that the fields behind it are reached.
func FuzzHeaderDecode(f *testing.F) {
	h := sampleHeader()
	var b [HeaderSize]byte
	h.Encode(&b)
	f.Add(b[:])
	f.Fuzz(func(t *testing.T, p []byte) {
		var b [HeaderSize]byte
		copy(b[:], p)
		binary.LittleEndian.PutUint32(b[60:], Checksum(b[:60]))
		var h Header
		if err := h.Decode(&b); err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		require.LessOrEqual(t, h.Len, uint32(MaxFrame))
		require.Less(t, h.Lane, uint16(MaxLanes))
		var again [HeaderSize]byte
		h.Encode(&again)
		b[11], again[11] = 0, 0
		copy(b[52:], make([]byte, 12)) // reserved bytes, and the checksum over them
		copy(again[52:], make([]byte, 12))
		require.Equal(t, b, again)
	})
}
