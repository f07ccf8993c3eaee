package peer

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	seam "github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// launcher has everything that algorithms launch operations with: the ranks, their heaps, the kernels and their
// arguments. It is used with the order's lock held.
type launcher struct {
	group           seam.Host
	rank, size      int
	linked          bool // NVLink everywhere: a store of 16 bytes arrives whole
	serial          bool // a kernel may have to end before the next one begins; the same on all ranks
	multiprocessors int  // that collectives may take of the smallest device: all ranks launch the same grids
	order           *streamorder.Order
	heap            *symheap.Heap
	layout          *symheap.Layout
	code            code
	args            *arguments
	engines         engines
	memory          int // bytes of a heap at most, as options say
	scratch         scratch
	rules           [plan.Scatter + 1][]tuned // those that the group can follow, by collective
	op              operation
}

// together calls load while no rank enqueues anything. Loading can wait for the device with a lock of the process held. Then a
// rank could not enqueue the operation for which the device waits.
func (x *launcher) together(ctx context.Context, load func() error) error {
	if x.size > 1 {
		if err := seam.Barrier(ctx, x.group); err != nil {
			return fmt.Errorf("before loading code: %w", err)
		}
	}
	if err := load(); err != nil {
		return err
	}
	if x.size > 1 {
		if err := seam.Barrier(ctx, x.group); err != nil {
			return fmt.Errorf("after loading code: %w", err)
		}
	}
	return nil
}

// peerIndex returns where a rank stands in arrays that begin with this rank.
func (x *launcher) peerIndex(rank int) int { return (rank - x.rank + x.size) % x.size }

// before and after return the neighbours of this rank in a ring.
func (x *launcher) before() int { return (x.rank + x.size - 1) % x.size }
func (x *launcher) after() int  { return (x.rank + 1) % x.size }

// neighbours returns the peer indices of the ranks before and after this one in a chain from the root, 0 for none.
func (x *launcher) neighbours(root int) (before, after uint32) {
	before, after = uint32(x.size-1), 1
	if x.rank == root {
		before = 0
	}
	if x.after() == root {
		after = 0
	}
	return before, after
}

// copy enqueues the copy of a tensor on the own device.
func (x *launcher) copy(t cuda.Thread, out, in cuda.Pointer, bytes int, s cuda.Stream) error {
	if out == in || bytes == 0 {
		return nil
	}
	x.args.copy = ptx.CopyArgs{Out: uint64(out), In: uint64(in), Bytes: uint64(bytes)}
	return x.code.launch(t, x.code.move(copyBytes), moveGrid(bytes), unsafe.Pointer(&x.args.copy), s)
}

// copyBytes and fillLines are entry points that no algorithm has for itself.
var (
	copyBytes = moveEntryOf(ptx.CopyBytes)
	fillLines = moveEntryOf(ptx.FillLines)
)

// moveGrid is for kernels that touch this device only.
func moveGrid(bytes int) cuda.Grid {
	return cuda.Grid{Blocks: uint32(min(bytes/(512*64)+1, 64)), Threads: 512}
}

// messageWaits is how many multiprocessors collectives leave to messages whose peer may be behind one.
const messageWaits = 4

// forCollectives returns how many of a device's multiprocessors grids of collectives may take.
func forCollectives(multiprocessors int) int { return max(multiprocessors-messageWaits, 1) }

func down(n, unit int) int { return n / unit * unit }
func up(n, unit int) int   { return (n + unit - 1) / unit * unit }
