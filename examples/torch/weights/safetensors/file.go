package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// File is an open file: its header, and where the tensors lie. It owns nothing.
type File struct {
	Header
	r    io.ReaderAt
	data int64 // the first byte behind the header
}

// Read reads the header of a file of so many bytes. Of the tensors it reads nothing.
func Read(r io.ReaderAt, size int64) (*File, error) {
	var length [8]byte
	if size < int64(len(length)) {
		return nil, fmt.Errorf("safetensors: a file of %d bytes", size)
	}
	if err := readAt(r, length[:], 0); err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > MaxHeader || int64(n) > size-8 {
		return nil, fmt.Errorf("safetensors: a header of %d bytes in a file of %d, at most %d are allowed", n, size, MaxHeader)
	}
	b := make([]byte, n)
	if err := readAt(r, b, 8); err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	h, err := Parse(b)
	if err != nil {
		return nil, err
	}
	f := &File{*h, r, 8 + int64(n)}
	if h.Size() > math.MaxInt64-f.data || f.data+h.Size() != size {
		return nil, fmt.Errorf("safetensors: the file has %d bytes of tensors, its header tells of %d", size-f.data, h.Size())
	}
	return f, nil
}

// readAt fills b. Some readers report the end of the file with the last bytes.
func readAt(r io.ReaderAt, b []byte, at int64) error {
	if n, err := r.ReadAt(b, at); n < len(b) {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	return nil
}

// Open returns the bytes of a tensor of the header, in the order of a C array and little-endian.
func (f *File) Open(t *Tensor) *io.SectionReader {
	return io.NewSectionReader(f.r, f.data+t.Begin, t.Size())
}

// WriteHeader writes the beginning of a file. The bytes of the tensors follow, in the order of h.Tensors, which it sorts.
func WriteHeader(w io.Writer, h *Header) error {
	b, err := h.Encode()
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(len(b))), b...))
	return err
}
