package tcp

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// compressFrom is the payload from which compression is tried; below it the header outweighs what could be saved.
const compressFrom = 1 << 10

// codec compresses payloads. It is used by one goroutine at a time.
type codec interface {
	// encode appends p, compressed, to b.
	encode(b, p []byte) []byte
	// decode expands p into dst, which p must fill exactly; it takes no memory that p asks for.
	decode(dst, p []byte) error
}

func newCodec(name string, frame int) (codec, error) {
	switch name {
	case "":
		return nil, nil
	case "s2":
		return s2Codec{}, nil
	case "zstd":
		e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false))
		if err != nil {
			return nil, fmt.Errorf("tcp: zstd: %w", err)
		}
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(max(frame, 1<<20))))
		if err != nil {
			return nil, fmt.Errorf("tcp: zstd: %w", err)
		}
		return &zstdCodec{e, d}, nil
	}
	return nil, fmt.Errorf(`tcp: compression %q, there are "s2" and "zstd"`, name)
}

type s2Codec struct{}

func (s2Codec) encode(b, p []byte) []byte {
	start := len(b)
	if need := start + s2.MaxEncodedLen(len(p)); cap(b) < need {
		b = append(make([]byte, 0, need), b...)
	}
	return b[:start+len(s2.Encode(b[start:cap(b)], p))]
}

func (s2Codec) decode(dst, p []byte) error {
	n, err := s2.DecodedLen(p)
	if err != nil {
		return err
	}
	if n != len(dst) {
		return fmt.Errorf("s2 block of %d bytes where the header says %d", n, len(dst))
	}
	_, err = s2.Decode(dst, p)
	return err
}

type zstdCodec struct {
	e *zstd.Encoder
	d *zstd.Decoder
}

func (c *zstdCodec) encode(b, p []byte) []byte { return c.e.EncodeAll(p, b) }

func (c *zstdCodec) decode(dst, p []byte) error {
	var h zstd.Header
	if err := h.Decode(p); err != nil {
		return err
	}
	if !h.HasFCS || h.FrameContentSize != uint64(len(dst)) {
		return fmt.Errorf("zstd frame of %d bytes where the header says %d", h.FrameContentSize, len(dst))
	}
	out, err := c.d.DecodeAll(p, dst[:0:len(dst)])
	if err != nil {
		return err
	}
	if len(out) != len(dst) {
		return fmt.Errorf("zstd frame expands to %d bytes where the header says %d", len(out), len(dst))
	}
	if len(out) > 0 && &out[0] != &dst[0] {
		copy(dst, out)
	}
	return nil
}

// pack makes the compressed payload with its length before it in b's memory. It returns nil if compression saves less than
// an eighth, which would not pay for expanding it.
func pack(c codec, b, p []byte) (packed, memory []byte) {
	b = c.encode(append(b[:0], 0, 0, 0, 0), p)
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	if len(b) > len(p)-len(p)/8 {
		return nil, b
	}
	return b, b
}
