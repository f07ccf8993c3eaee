package symheap

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg/backend"
)

// In the self-test of an edge the sender writes half of testBytes by a copy. A kernel writes the rest, except the last word,
// which a stream writes. The receiver reads all of it.
const byCopy, byKernel = testBytes / 2, testBytes - 4

// Test writes a pattern to every rank and verifies the patterns of all ranks here, on all ranks together. After its first
// barrier all heaps are there to stay. Its last barrier keeps every rank from beginning before all are sure.
func (h *Heap) Test(ctx context.Context, t cuda.Thread, s cuda.Stream) error {
	if err := backend.Barrier(ctx, h.group); err != nil {
		return err
	}
	host, err := t.AllocHost(h.size * testBytes)
	if err != nil {
		return err
	}
	h.patterns = host // freed with the heap: freeing waits for the device, which may wait for another group of this process
	err = h.sendPatterns(t, s, host)
	if err == nil {
		err = backend.Barrier(ctx, h.group)
	}
	if err == nil {
		err = h.verifyPatterns(t, s, host)
	}
	if err = errors.Join(err, streamorder.Idle(t, s)); err != nil { // copies are on their way where a call failed
		return err
	}
	return backend.Barrier(ctx, h.group)
}

func (h *Heap) sendPatterns(t cuda.Thread, s cuda.Stream, host *cuda.Host) error {
	for q := range h.size {
		for i := range testBytes {
			host.Bytes[q*testBytes+i] = pattern(h.rank, q, i)
		}
	}
	own := h.Address(h.Layout.test + h.size*testBytes)
	if err := t.Copy(own, host.Device, len(host.Bytes), s); err != nil {
		return err
	}
	for q := range h.size {
		src := own + cuda.Pointer(q*testBytes)
		dst := h.PeerAddress(q, h.Layout.test+h.rank*testBytes)
		word := binary.LittleEndian.Uint32(host.Bytes[q*testBytes+byKernel:])
		args := &ptx.CopyArgs{Out: uint64(dst + byCopy), In: uint64(src + byCopy), Bytes: byKernel - byCopy}
		c := streamorder.On(t)
		c.Copy(dst, src, byCopy, s)
		c.Do(func() error {
			return t.Launch(h.kernels.Copy, cuda.Grid{Blocks: 1, Threads: 64}, unsafe.Pointer(args), s)
		})
		c.Write32(s, dst+byKernel, word)
		if c.Err != nil {
			return fmt.Errorf("testing the edge from rank %d to rank %d: %w", h.rank, q, c.Err)
		}
	}
	if err := t.Synchronize(s); err != nil {
		return fmt.Errorf("testing the edges from rank %d: %w", h.rank, err)
	}
	return nil
}

func (h *Heap) verifyPatterns(t cuda.Thread, s cuda.Stream, host *cuda.Host) error {
	clear(host.Bytes)
	if err := t.Copy(host.Device, h.Address(h.Layout.test), len(host.Bytes), s); err != nil {
		return err
	}
	if err := t.Synchronize(s); err != nil {
		return err
	}
	for q := range h.size {
		for i := range testBytes {
			got, want := host.Bytes[q*testBytes+i], pattern(q, h.rank, i)
			if got != want {
				return fmt.Errorf("the edge from rank %d to rank %d is broken: byte %d, written by %s, is %#02x, not %#02x",
					q, h.rank, i, writer(i), got, want)
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
