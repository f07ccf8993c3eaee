package peer

import (
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/plan"
)

// LL stores data with a flag beside every four bytes, as NCCL's low-latency protocol does: one kernel, no barrier. A sum is
// everything to everybody, added in rank order. With B bytes and n ranks each rank stores 2(n-1)·B.
const LL Algorithm = "ll"

var ll = &algorithm{
	name:   LL,
	source: "LL",
	forms: forms{
		plan.AllReduce:     {fits: fitsLL, launch: allReduceLL},
		plan.Broadcast:     {fits: fitsLL, launch: broadcastLL},
		plan.ReduceScatter: {fits: fitsLL, launch: scatterLL},
		plan.Reduce:        {fits: fitsLL, launch: scatterLL},
		plan.AllGather:     {fits: fitsLL, launch: exchangeLL},
		plan.AllToAll:      {fits: fitsLL, launch: exchangeLL},
		plan.Gather:        {fits: fitsLL, launch: exchangeLL},
		plan.Scatter:       {fits: fitsLL, launch: exchangeLL},
	},
}

var (
	llExchange     = moveEntryOf(ptx.ExchangeLL)
	llExchangeEven = moveEntryOf(ptx.ExchangeLLEven)
	llBroadcast    = moveEntryOf(ptx.BroadcastLL)
	llAllReduce    = foldEntryOf(ptx.LLFamily, ptx.AllReduceLL)
	llScatter      = foldEntryOf(ptx.LLFamily, ptx.ReduceScatterLL)
	llScatterEven  = foldEntryOf(ptx.LLFamily, ptx.ReduceScatterLLEven)
)

// fitsLL reports whether each part has room in a slot, of which half are flags.
func fitsLL(x *launcher, o *operation) bool { return o.bytes <= x.layout.LLSlot/2 }

func allReduceLL(x *launcher, o *operation) error {
	return reduceLL(x, o, llAllReduce, o.bytes)
}

// reduceLL launches an all-reduce that stores so many bytes.
func reduceLL(x *launcher, o *operation, e foldEntry, stored int) error {
	k, err := x.fold(o, e)
	if err != nil {
		return err
	}
	return x.launch(o, k, o.rule.llGrid(stored, x.multiprocessors), unsafe.Pointer(x.layAllReduce(o)))
}

func broadcastLL(x *launcher, o *operation) error {
	a := &x.args.broadcast
	a.In, a.Out, a.Bytes, a.Root = uint64(o.in), uint64(o.out), uint64(o.bytes), uint32(x.peerIndex(o.Root))
	return x.launch(o, x.code.move(llBroadcast), o.rule.threadGrid(o.bytes), unsafe.Pointer(a))
}

func exchangeLL(x *launcher, o *operation) error {
	if a := evenLL(x, o); a != nil {
		if o.Coll == plan.AllGather {
			a.Step = 0
		}
		return x.launch(o, x.code.move(llExchangeEven), o.rule.threadGrid(o.bytes), unsafe.Pointer(a))
	}
	return x.launch(o, x.code.move(llExchange), o.rule.threadGrid(o.bytes*x.size), unsafe.Pointer(x.layExchange(o)))
}

func scatterLL(x *launcher, o *operation) error {
	a, e, bytes := evenLL(x, o), llScatterEven, o.bytes
	if a == nil {
		e, bytes = llScatter, o.bytes*(x.size-1)
	}
	k, err := x.fold(o, e)
	if err != nil {
		return err
	}
	grid := o.rule.llGrid(bytes, x.multiprocessors)
	if a != nil {
		a.Divisor = x.divisor(o.Op)
		return x.launch(o, k, grid, unsafe.Pointer(a))
	}
	x.layParts(o)
	return x.launch(o, k, grid, unsafe.Pointer(&x.args.scatter))
}

// evenLL returns the arguments of the kernels for the shape that most small tensors have, nil for another shape. In that shape
// one tensor holds all parts, each as long, in units of 16 bytes at multiples of 16. Kernels and host have less to do then.
// Only this rank knows where its tensors lie, so its peers may launch the general kernel.
func evenLL(x *launcher, o *operation) *ptx.EvenArgs {
	if !o.even || o.laid || o.Ins != nil || o.Outs != nil || (o.bytes|int(o.in|o.out))%16 != 0 {
		return nil
	}
	a := &x.args.even
	a.In, a.Out, a.Part, a.Step = uint64(o.in), uint64(o.out), uint64(o.bytes), uint64(o.bytes)
	return a
}

// meet has the ranks meet on a stream: when the stream goes on, everything has ended that any of them had enqueued before.
// It is an exchange of nothing.
func (x *launcher) meet(t cuda.Thread, s cuda.Stream) error {
	a := &x.args.exchange
	clear(a.SendBytes[:])
	clear(a.RecvBytes[:])
	return x.code.launch(t, x.code.move(llExchange), cuda.Grid{Blocks: 1, Threads: 32 * ptx.MaxRanks}, unsafe.Pointer(a), s)
}

// llGrid returns a grid with a thread for each 16 bytes, for the kernels that fold. One block of them takes a
// multiprocessor's registers, so there are no more blocks than multiprocessors.
func (r *Rule) llGrid(bytes, multiprocessors int) cuda.Grid {
	fitting := Rule{Blocks: min(r.Blocks, multiprocessors), Threads: min(r.Threads, ptx.FoldThreads)}
	return fitting.threadGrid(bytes)
}

// threadGrid returns a grid with a thread for each 16 bytes, or as many as the rule allows.
func (r *Rule) threadGrid(bytes int) cuda.Grid {
	units := (bytes + 15) / 16
	blocks := max((units+r.Threads-1)/r.Threads, 1)
	return cuda.Grid{Blocks: uint32(min(blocks, r.Blocks)), Threads: uint32(r.Threads)}
}
