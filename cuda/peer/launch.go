package peer

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
	"github.com/colligo-go/colligo/kernels/ptx"
	seam "github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// Algorithms declare the entry points that they launch. Each gets a place in a table, so that a launch looks nothing up by name.
type (
	moveEntry int // of kernels that know no element type
	foldEntry struct {
		family ptx.Family // loaded together
		index  int
	}
)

// moveNames and foldNames are the entry points that algorithms have declared, by their places.
var moveNames, foldNames []string

// moveEntryOf declares a kernel that knows no element type.
func moveEntryOf(name string) moveEntry { return moveEntry(placed(&moveNames, name)) }

// foldEntryOf declares a kernel that reduces.
func foldEntryOf(f ptx.Family, name string) foldEntry { return foldEntry{f, placed(&foldNames, name)} }

func placed(names *[]string, name string) int {
	for i, n := range *names {
		if n == name {
			return i
		}
	}
	*names = append(*names, name)
	return len(*names) - 1
}

// kernel is an entry point, also as a graph where the driver has those.
type kernel struct {
	cuda.Function
	again   *cuda.Repeat
	dirties bool // it leaves tiles
}

// move returns a kernel that knows no element type.
func (c *code) move(e moveEntry) *kernel { return &c.moves[e] }

// fold returns a kernel of a reduction, nil if it is not loaded.
func (c *code) fold(of reduction, e foldEntry) *kernel {
	if c.lastOf == nil || c.last != of {
		c.last, c.lastOf = of, c.folds[of]
	}
	if c.lastOf == nil || c.lastOf[e.index].Function == 0 {
		return nil
	}
	return &c.lastOf[e.index]
}

// run carries out an operation whose size and shape are known: by the algorithm of the first rule that covers it.
func (x *launcher) run(o *operation) error {
	return x.choose(o).forms[o.Coll].launch(x, o)
}

// choose finds the first rule that covers an operation and has an algorithm that takes it. It notes the rule in the operation.
func (x *launcher) choose(o *operation) *algorithm {
	rules := x.rules[o.Coll]
	for i := range rules {
		r := &rules[i]
		if !r.coversBytes(o.bytes) || r.Registered && !x.registered(o) || r.Eager && o.captured() {
			continue
		}
		o.rule = &r.Rule
		for _, a := range r.by {
			if f := &a.forms[o.Coll]; f.fits == nil || f.fits(x, o) {
				return a
			}
		}
	}
	return rules[len(rules)-1].by[0] // which takes every operation
}

// coversBytes reports whether a rule is for operations of so many bytes.
func (r *Rule) coversBytes(bytes int) bool { return r.MaxBytes == 0 || bytes <= r.MaxBytes }

// fold returns a kernel for the operation's reduction, loaded at its first use. All ranks come here with the same operation.
func (x *launcher) fold(o *operation, e foldEntry) (*kernel, error) {
	of := reduction{o.DType, o.Op.Kind()}
	if k := x.code.fold(of, e); k != nil {
		return k, nil
	}
	if err := x.together(o.ctx, func() error { return x.code.loadFolds(o.t, of, e.family) }); err != nil {
		return nil, err
	}
	return x.code.fold(of, e), nil
}

// launch enqueues a kernel on the operation's stream.
func (x *launcher) launch(o *operation, k *kernel, g cuda.Grid, args unsafe.Pointer) error {
	return x.code.launch(o.t, k, g, args, o.s)
}

// launch enqueues a kernel, as a graph of its own if its grid is small. Where the device has launches ahead, the kernel itself
// waits for the work before it on the stream.
func (c *code) launch(t cuda.Thread, k *kernel, g cuda.Grid, args unsafe.Pointer, s cuda.Stream) error {
	if k.dirties {
		if err := c.markDirty(t, s); err != nil {
			return err
		}
	}
	if threads := int(g.Blocks * g.Threads); k.again != nil && threads <= repeatEver {
		c.repeats.count++
		if n := c.repeats.sampled(); n >= 0 {
			begin := time.Now()
			err := c.launchOnce(t, k, g, args, s)
			c.repeats.sample(n, time.Since(begin))
			return err
		}
		if threads <= c.repeats.most {
			if captured, err := t.LaunchRepeat(k.again, g, args, s); !captured {
				return err
			}
		}
	}
	return c.launchOnce(t, k, g, args, s)
}

// markDirty notes that the next operation on s leaves data in slots that are to hold sentinels.
func (c *code) markDirty(t cuda.Thread, s cuda.Stream) error {
	c.dirty = true
	if c.graphDirty {
		return nil
	}
	var err error
	c.graphDirty, _, err = streamorder.Capture(t, s)
	return err
}

// launchOnce launches a kernel without a graph of its own.
func (c *code) launchOnce(t cuda.Thread, k *kernel, g cuda.Grid, args unsafe.Pointer, s cuda.Stream) error {
	if c.ahead {
		return t.LaunchAhead(k.Function, g, args, s)
	}
	return t.Launch(k.Function, g, args, s)
}

// launcher has everything that algorithms launch operations with: the ranks, their heaps, the kernels and their
// arguments. It is used with the order's lock held.
type launcher struct {
	group           seam.Host
	rank, size      int
	linked          bool // NVLink everywhere: a store of 16 bytes arrives whole
	shared          bool // some ranks share a device; the same on all ranks
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

// sampled returns which launch of a sample this one is, something negative if it is none.
func (r *repeats) sampled() int {
	if n := r.count%sampleEvery - sampleEvery/2; r.adapts && n < sampleLength {
		return n
	}
	return -1
}

// sample takes how long launch n of a sample took. When it was the last one, their median decides about those to come.
func (r *repeats) sample(n int, took time.Duration) {
	r.took[n] = took
	if n == sampleLength-1 {
		timed := r.took[sampleFrom:]
		slices.Sort(timed)
		r.most = repeatMost(timed[len(timed)/2])
	}
}
