package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/colligo-go/colligo/examples/torch/weights/safetensors"
)

// The most bytes for which a sender can make a receiver take memory.
const (
	mostHeader = 16 << 20
	mostPiece  = 64 << 20
)

// errOver is what the sender's last message says.
var errOver = errors.New("no more weights")

// stream reads what rank 0 broadcasts. It has two pieces: while one of them travels, the other is hashed and written.
type stream struct {
	mover
	piece int
	free  chan []byte
}

// begin reads the length of a header and the size of pieces.
func (s *stream) begin(ctx context.Context) (header int, err error) {
	var b [16]byte
	if err := s.broadcast(ctx, b[:]); err != nil {
		return 0, err
	}
	n, piece := binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
	if n == 0 {
		if _, err := s.sum(ctx, 0); err != nil { // when it returns, no rank needs another one
			return 0, err
		}
		return 0, errOver
	}
	if n > mostHeader || piece == 0 || piece > mostPiece {
		return 0, fmt.Errorf("a header of %d bytes and pieces of %d, at most %d and %d are allowed", n, piece, mostHeader, mostPiece)
	}
	if s.piece != int(piece) {
		s.piece, s.free = int(piece), make(chan []byte, 2)
		s.free <- make([]byte, piece)
		s.free <- make([]byte, piece)
	}
	return int(n), nil
}

// read reads n bytes and the checksum behind them. It hands the bytes to w in pieces, and tells the checksum of what has come and
// whether it is the one that was sent.
func (s *stream) read(ctx context.Context, n int64, w *sink) (own [sha256.Size]byte, right bool, err error) {
	pieces := make(chan []byte, 2)
	done := make(chan struct{})
	sum := sha256.New()
	go func() {
		defer close(done)
		for b := range pieces {
			sum.Write(b)
			w.write(b)
			s.free <- b[:cap(b)]
		}
	}()
	for n > 0 && err == nil {
		b := <-s.free
		b = b[:min(int64(s.piece), n)]
		n -= int64(len(b))
		err = s.broadcast(ctx, b)
		pieces <- b
	}
	close(pieces)
	<-done
	var sent [sha256.Size]byte
	if err == nil {
		err = s.broadcast(ctx, sent[:])
	}
	sum.Sum(own[:0])
	return own, own == sent, err
}

// sink keeps the first error of a writer and then writes no more, for the other ranks count on this one's calls all the same.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) write(b []byte) {
	if s.err == nil {
		_, s.err = s.w.Write(b)
	}
}

// header reads a header, and checks it.
func (s *stream) header(ctx context.Context) (*safetensors.Header, error) {
	n, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if _, right, err := s.read(ctx, int64(n), &sink{w: &text}); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	} else if !right {
		return nil, errors.New("the header came with another checksum than it was sent with")
	}
	return safetensors.Parse(text.Bytes())
}

// tensors reads the tensors of a header into w, and tells the other ranks how many came wrong. An error of w does not count among
// those: it ends this rank after the round.
func (s *stream) tensors(ctx context.Context, h *safetensors.Header, w *sink) (*table, error) {
	t := &table{header: h}
	var wrong []error
	for i := range h.Tensors {
		x := &h.Tensors[i]
		sum, right, err := s.read(ctx, x.Size(), w)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", x.Name, err)
		}
		if t.sums = append(t.sums, sum); !right {
			wrong = append(wrong, fmt.Errorf("tensor %q came with another checksum than it was sent with", x.Name))
		}
	}
	total, err := s.sum(ctx, int64(len(wrong)))
	switch {
	case err != nil:
		return nil, err
	case len(wrong) > 0:
		return nil, errors.Join(wrong...)
	case total > 0:
		return nil, fmt.Errorf("%d tensors came wrong to other ranks", total)
	}
	return t, w.err
}
