package tcp

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
)

// tape is a stream in memory that hands out what was written in pieces of random length, and refuses now and then.
type tape struct {
	bytes.Buffer
	rng   *rand.Rand
	piece int
	ended bool
}

func (t *tape) Read(bufs [][]byte) (total int, err error) {
	if t.Len() == 0 && t.ended {
		return 0, io.EOF
	}
	if t.rng.IntN(4) == 0 {
		return 0, nil
	}
	limit := 1 + t.rng.IntN(t.piece)
	for _, b := range bufs {
		n, _ := t.Buffer.Read(b[:min(len(b), limit-total)])
		total += n
	}
	return total, nil
}

func (t *tape) Write(bufs [][]byte) (total int, err error) {
	if t.rng.IntN(4) == 0 {
		return 0, nil
	}
	limit := 1 + t.rng.IntN(t.piece)
	for _, b := range bufs {
		n := min(len(b), limit-total)
		t.Buffer.Write(b[:n])
		total += n
	}
	return total, nil
}

func (t *tape) Finish()       {}
func (t *tape) Flushed() bool { return true }
func (t *tape) Close()        {}

const testFrame = 256 << 10

// ends returns the two halves of a lane with a tape between them.
func ends(t testing.TB, seed uint64, piece int, compression string, checksum bool) (*sender, *receiver, *tape) {
	c, err := newCodec(compression, testFrame)
	require.NoError(t, err)
	s := &tape{rng: rand.New(rand.NewPCG(seed, 1)), piece: piece}
	return &sender{s: s, codec: c, checksum: checksum}, &receiver{s: s, codec: c, lane: 3, frame: testFrame}, s
}

// payload is compressible in half of the cases.
func payload(rng *rand.Rand, n int) []byte {
	p := make([]byte, n)
	if rng.IntN(2) == 0 {
		for i := range p {
			p[i] = byte(i / 50)
		}
		return p
	}
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	return p
}

// TestFrames sends frames of many sizes through a lane in pieces, and takes them in every way.
func TestFrames(t *testing.T) {
	for _, compression := range []string{"", "s2", "zstd"} {
		for _, checksum := range []bool{false, true} {
			for _, piece := range []int{7, 3000, 1 << 20} {
				name := fmt.Sprintf("compression=%s/checksum=%v/piece=%d", compression, checksum, piece)
				t.Run(name, func(t *testing.T) { exchange(t, 20260101, compression, checksum, piece) })
			}
		}
	}
}

func exchange(t *testing.T, seed uint64, compression string, checksum bool, piece int) {
	t.Logf("seed %d", seed)
	out, in, _ := ends(t, seed, piece, compression, checksum)
	rng := rand.New(rand.NewPCG(seed, 2))
	sizes := []int{0, 1, 7, 63, 64, 65, shortBytes, shortBytes + 1, 1023, 1024, 4096, 16<<10 + 1, 65535, 65536}
	if piece > 10 {
		sizes = append(sizes, 100000, testFrame, testFrame-1)
	}
	frames := min(150, 20+piece)
	sent := make([][]byte, frames)
	for i := range sent {
		sent[i] = payload(rng, sizes[rng.IntN(len(sizes))])
	}
	writing, ways, dsts := 0, make([]int, frames), make([][]byte, frames)
	for reading := 0; reading < frames; {
		for writing < frames && writing < reading+4 {
			p := sent[writing]
			ok, err := out.send(&transport.Header{Lane: 3, Len: uint32(len(p)), Step: uint32(writing)}, p)
			require.NoError(t, err)
			if !ok {
				break
			}
			writing++
		}
		h, err := in.head()
		require.NoError(t, err)
		if h == nil {
			continue
		}
		if ways[reading] == 0 {
			ways[reading] = 1 + rng.IntN(4)
			dsts[reading] = make([]byte, len(sent[reading]))
		}
		require.Equal(t, uint32(reading), h.Step)
		if take(t, in, h, sent[reading], dsts[reading], ways[reading]) {
			reading++
		}
	}
}

// take looks at a frame in a destination (1, 2) or inside the lane (3). Or it does not look to the end (4, after a look with
// a destination if the frame is long).
func take(t *testing.T, in *receiver, h *transport.Header, want, dst []byte, way int) bool {
	require.Equal(t, uint32(len(want)), h.Len)
	if way == 3 || way == 4 && len(want) < 5000 {
		dst = nil
	}
	var p []byte
	ok := false
	if way != 4 || dst != nil {
		var err error
		p, ok, err = in.body(dst)
		require.NoError(t, err)
	}
	if way == 4 {
		in.release()
		return true
	}
	if !ok {
		return false
	}
	require.True(t, bytes.Equal(want, p), "frame of %d bytes", len(want))
	if dst != nil && len(p) > 0 {
		require.Equal(t, unsafe.SliceData(dst), unsafe.SliceData(p))
	} else if len(p) > 0 {
		require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(p)))%align)
	}
	in.release()
	return true
}

// FuzzReceiver has a lane read anything: it refuses or waits, and takes no more memory than a frame.
func FuzzReceiver(f *testing.F) {
	for _, compression := range []string{"", "s2", "zstd"} {
		out, _, s := ends(f, 1, 1<<20, compression, true)
		p := payload(rand.New(rand.NewPCG(2, 2)), 5000)
		for ok := false; !ok; {
			ok, _ = out.send(&transport.Header{Lane: 3, Len: uint32(len(p))}, p)
		}
		f.Add(s.Bytes(), uint64(1), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64, whole bool) {
		compression := []string{"", "s2", "zstd"}[seed%3]
		_, in, s := ends(t, seed, 1+int(seed%5000), compression, false)
		if len(b) >= transport.HeaderSize { // make the header's checksum right, so that what is behind it is reached
			var h transport.Header
			if h.Decode((*[transport.HeaderSize]byte)(b)) != nil && len(b) > 50 {
				h = transport.Header{Lane: 3, Flags: uint16(b[1] & 3), Len: uint32(b[2])<<11 | uint32(b[3])}
				h.Encode((*[transport.HeaderSize]byte)(b))
			}
		}
		s.Buffer.Write(b)
		s.ended = true
		for range 1000 {
			h, err := in.head()
			if err != nil {
				return
			}
			if h == nil {
				continue
			}
			var dst []byte
			if whole {
				dst = make([]byte, h.Len)
			}
			p, ok, err := in.body(dst)
			require.LessOrEqual(t, len(in.buf), testFrame+transport.HeaderSize+sumSize+4)
			if err != nil {
				return
			}
			if ok {
				require.Len(t, p, int(h.Len))
				in.release()
			}
		}
	})
}
