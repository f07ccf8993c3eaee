package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// The self-test of an edge: the sender writes half of testBytes by a copy, the rest by a kernel, but for the last word,
// which a stream writes. The receiver reads all of it.
const byCopy, byKernel = testBytes / 2, testBytes - 4

// testEdges writes a pattern to every rank and verifies what every rank has written here. It is collective. The first
// barrier makes sure that all symmetric heaps are there to stay, the last that no rank begins before all are sure.
func (b *backend) testEdges(ctx context.Context, t cuda.Thread) error {
	if err := b.group.Barrier(ctx); err != nil {
		return err
	}
	host, err := t.AllocHost(b.size * testBytes)
	if err != nil {
		return err
	}
	err = b.sendPatterns(t, host)
	if err == nil {
		err = b.group.Barrier(ctx)
	}
	if err == nil {
		err = b.verifyPatterns(t, host)
	}
	// Copies are on their way where a call failed. Freeing waits for the device with a lock of the process held, so it comes before
	// any rank has left: one that shares the device may have it wait for this rank then.
	if err = errors.Join(err, b.idle(t, b.streams.setup.stream), t.FreeHost(host)); err != nil {
		return err
	}
	return b.group.Barrier(ctx)
}

func (b *backend) sendPatterns(t cuda.Thread, host *cuda.Host) error {
	for q := range b.size {
		for i := range testBytes {
			host.Bytes[q*testBytes+i] = pattern(b.rank, q, i)
		}
	}
	s := b.streams.setup.stream
	own := b.heap + cuda.Pointer(b.layout.test+b.size*testBytes)
	if err := t.Copy(own, host.Device, len(host.Bytes), s); err != nil {
		return err
	}
	for q := range b.size {
		src := own + cuda.Pointer(q*testBytes)
		dst := b.peers[q].at + cuda.Pointer(b.layout.test+b.rank*testBytes)
		word := binary.LittleEndian.Uint32(host.Bytes[q*testBytes+byKernel:])
		args := &ptx.CopyArgs{Out: uint64(dst + byCopy), In: uint64(src + byCopy), Bytes: byKernel - byCopy}
		err := errors.Join(t.Copy(dst, src, byCopy, s),
			t.Launch(b.code.move.copy.Function, cuda.Grid{Blocks: 1, Threads: 64}, unsafe.Pointer(args), s),
			t.Write32(s, dst+byKernel, word))
		if err != nil {
			return fmt.Errorf("testing the edge from rank %d to rank %d: %w", b.rank, q, err)
		}
	}
	if err := t.Synchronize(s); err != nil {
		return fmt.Errorf("testing the edges from rank %d: %w", b.rank, err)
	}
	return nil
}

func (b *backend) verifyPatterns(t cuda.Thread, host *cuda.Host) error {
	clear(host.Bytes)
	s := b.streams.setup.stream
	if err := t.Copy(host.Device, b.heap+cuda.Pointer(b.layout.test), len(host.Bytes), s); err != nil {
		return err
	}
	if err := t.Synchronize(s); err != nil {
		return err
	}
	for q := range b.size {
		for i := range testBytes {
			got, want := host.Bytes[q*testBytes+i], pattern(q, b.rank, i)
			if got != want {
				return fmt.Errorf("the edge from rank %d to rank %d is broken: byte %d, written by %s, is %#02x, not %#02x",
					q, b.rank, i, writer(i), got, want)
			}
		}
	}
	return nil
}

func pattern(from, to, i int) byte { return byte(1 + i*7 + from*31 + to*101 + i>>8) }

func writer(i int) string {
	switch {
	case i < byCopy:
		return "a copy"
	case i < byKernel:
		return "a kernel"
	}
	return "a stream"
}
