package model

import (
	"encoding/binary"

	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/kernels/ptx"
)

const (
	chunkBytes = 512
	slotChunks = ptx.SentinelSpan / chunkBytes
)

// connections is a block of a sentinel kernel, the index-th of the blocks that carry out an operation. Its warps act one after the other.
type connections struct {
	member
	a               *ptx.SentinelArgs
	index           int
	without         Wait
	sentinel        [line]byte
	warpConnections []connection
	iterations
}

// connection is the ring connection of a warp: the warp's index in sentinel memory, and the number and slot of its next step.
type connection struct{ index, number, slot uint32 }

func newConnections(b *cudasim.Block, a *ptx.SentinelArgs, index int, grid uint32, w Wait) *connections {
	b.AwaitBefore()
	x := &connections{member: member{Block: b, g: &a.Group, grid: grid}, a: a, index: index, without: w}
	x.begin()
	for i, word := range a.Sentinel {
		binary.LittleEndian.PutUint32(x.sentinel[4*i:], word)
	}
	for i := range uint32(b.Threads / 32) {
		w := connection{index: uint32(index)*b.Threads/32 + i}
		count := a.Counts + 8*uint64(w.index)
		w.number, w.slot = x.LoadVolatile32(count), x.LoadVolatile32(count+4)
		x.warpConnections = append(x.warpConnections, w)
	}
	x.postCredits()
	return x
}

// at returns where warp chunk u of a warp's step lies in the memory at base.
func (x *connections) at(base uint64, w *connection, u uint32) uint64 {
	warps := uint64(x.a.Blocks) * ptx.SentinelWarps
	return base + (uint64(w.slot)*warps+uint64(w.index))*ptx.SentinelSpan + chunkBytes*uint64(u)
}

// put stores the warp chunks of a step in the next rank's slot.
func (x *connections) put(w *connection, chunks [][]byte) {
	for u, b := range chunks {
		if !x.aborted {
			x.StoreSentinel(x.at(x.a.Next, w, uint32(u)), b)
		}
	}
}

// take waits for some warp chunks and clears them.
func (x *connections) take(w *connection, n uint32) (chunks [][]byte) {
	for u := range n {
		b := make([]byte, chunkBytes)
		x.wait(x.rankAt(int(x.a.Before)), func() bool { return x.LoadSentinel(x.at(x.a.Memory, w, u), b, x.sentinel) })
		chunks = append(chunks, b)
	}
	for u := range n {
		if !x.aborted {
			x.Clear(x.at(x.a.Memory, w, u), chunkBytes/line, x.sentinel)
		}
	}
	return chunks
}

// clear waits for the lines that take has cleared, unless that wait is left out. Then it goes on to the next step.
func (x *connections) clear(w *connection, n uint32) {
	for u := range n {
		if !x.aborted && x.without != WaitForClear {
			x.AwaitClear(x.at(x.a.Memory, w, u), chunkBytes/line)
		}
	}
	x.step(w)
}

func (x *connections) step(w *connection) {
	w.number++
	if w.slot++; w.slot == x.a.Slots {
		w.slot = 0
	}
}

// postCredits returns credit for all warps: all steps before their next one are cleared. The sender's awaitCredit waits
// until the next rank has returned credit n, unless that wait is left out.
func (x *connections) postCredits() {
	for _, w := range x.warpConnections {
		if !x.aborted {
			x.StoreVolatile32(x.a.PrevCredits+4*uint64(w.index), w.number)
		}
	}
}

func (x *connections) awaitCredit(w *connection, n uint32, which Wait) {
	if x.without != which {
		x.wait(x.rankAt(int(x.a.After)), func() bool { return int32(x.LoadVolatile32(x.a.Credits+4*uint64(w.index))-n) >= 0 })
	}
}

func (x *connections) leave() {
	for _, w := range x.warpConnections {
		if !x.aborted {
			x.StoreVolatile32(x.a.Counts+8*uint64(w.index), w.number)
			x.StoreVolatile32(x.a.Counts+8*uint64(w.index)+4, w.slot)
		}
	}
}

// iterations deals the warp chunks of a tensor to the warps of a grid.
type iterations struct{ warps, all, chunks, count uint32 }

func (x *connections) deal(bytes uint64) {
	s := &x.iterations
	s.warps, s.all = x.grid*uint32(len(x.warpConnections)), uint32((bytes+chunkBytes-1)/chunkBytes)
	s.count = (s.all + s.warps*slotChunks - 1) / (s.warps * slotChunks)
	s.chunks = (s.all + s.warps*s.count - 1) / (s.warps * s.count)
}

// chunk returns the index in the tensor of the warp chunk u of an iteration, for the i-th warp of the block.
func (x *connections) chunk(iteration, u uint32, i int) uint64 {
	return uint64((iteration*x.iterations.chunks+u)*x.iterations.warps + uint32(x.index*len(x.warpConnections)+i))
}

// has returns the number of warp chunks of the i-th warp in an iteration.
func (x *connections) has(iteration uint32, i int) uint32 {
	n := uint32(1)
	for u := uint32(1); u < x.iterations.chunks && x.chunk(iteration, u, i) < uint64(x.iterations.all); u++ {
		n++
	}
	return n
}

// readChunks returns n warp chunks of the tensor at p, for the i-th warp in an iteration.
func (x *connections) readChunks(p, bytes uint64, iteration uint32, i int, n uint32) (chunks [][]byte) {
	for u := range n {
		at := x.chunk(iteration, u, i) * chunkBytes
		chunks = append(chunks, x.read(p+at, chunkBytes/line, within(at, chunkBytes, bytes)))
	}
	return chunks
}

func (x *connections) writeChunks(p, bytes uint64, iteration uint32, i int, chunks [][]byte) {
	for u, b := range chunks {
		at := x.chunk(iteration, uint32(u), i) * chunkBytes
		x.write(p+at, b, within(at, chunkBytes, bytes))
	}
}

// sentinel is AllReduceSentinel. sentinel.cu has the steps.
func (f folder) sentinel(l *cudasim.Launch) {
	l.Each(func(b *cudasim.Block) {
		x := newConnections(b, cudasim.Args[ptx.SentinelArgs](l), b.Index, l.Grid, f.without)
		x.deal(x.a.Part)
		for iteration := range x.iterations.count {
			f.iteration(x, iteration)
		}
		x.leave()
	})
}

// iteration sends some warp chunks of every part round the ring.
func (f folder) iteration(x *connections, iteration uint32) {
	for s := range 2*x.size() - 1 {
		for i := range x.warpConnections {
			f.ringStep(x, iteration, s, i)
		}
	}
}

// ringStep takes the i-th warp's chunks of the part that has been put s times. It adds this rank's chunks or keeps the sum, and puts them.
func (f folder) ringStep(x *connections, iteration uint32, s, i int) {
	w, n, last := &x.warpConnections[i], x.has(iteration, i), 2*x.size()-2
	from := uint64((int(x.g.Rank)-s+2*x.size())%x.size()) * x.a.Part
	bytes := within(from, x.a.Part, x.a.Bytes)
	var own [][]byte
	if s < x.size() {
		own = x.readChunks(x.a.In+from, bytes, iteration, i, n)
	}
	if s == 0 {
		x.put(w, own)
		return
	}
	chunks := x.take(w, n)
	if s < x.size() {
		step := kernels.Step{Ranks: int(x.a.Divisor), SumLast: s > 1, Partial: s < x.size()-1}
		f.addChunks(chunks, own, step, func(u uint32) uint64 { return within(x.chunk(iteration, u, i)*chunkBytes, chunkBytes, bytes) })
	}
	x.clear(w, n)
	if s < last {
		x.put(w, chunks)
	}
	if s >= x.size()-1 && !x.aborted {
		x.writeChunks(x.a.Out+from, bytes, iteration, i, chunks)
	}
}

// addChunks reduces own into chunks. left returns how many bytes of a chunk are elements.
func (f folder) addChunks(chunks, own [][]byte, s kernels.Step, left func(u uint32) uint64) {
	for u := range chunks {
		n := left(uint32(u))
		chunks[u] = append(f.step([][]byte{own[u], chunks[u]}, n, s), make([]byte, chunkBytes-n)...)
	}
}

// sentinelChain is BroadcastSentinel. It leaves out one kind of wait.
type sentinelChain struct{ without Wait }

func (c sentinelChain) broadcast(l *cudasim.Launch) {
	l.Each(func(b *cudasim.Block) { c.handOn(b, cudasim.Args[ptx.SentinelArgs](l), b.Index, l.Grid) })
}

// handOn is a broadcast by some blocks. b is the index-th of them.
func (c sentinelChain) handOn(b *cudasim.Block, a *ptx.SentinelArgs, index int, blocks uint32) {
	x := newConnections(b, a, index, blocks, c.without)
	x.deal(x.a.Bytes)
	begin := make([]uint32, len(x.warpConnections))
	for i, w := range x.warpConnections {
		begin[i] = w.number
	}
	for iteration := range x.iterations.count {
		for i := range x.warpConnections {
			x.hop(iteration, i, begin[i])
		}
		x.postCredits()
	}
	for i := range x.warpConnections {
		if w := &x.warpConnections[i]; x.a.Ends&ptx.EndLast == 0 {
			x.awaitCredit(w, w.number, WaitForLastCredit)
		}
	}
	x.leave()
}

// hop hands on and keeps a warp's chunks of an iteration.
func (x *connections) hop(iteration uint32, i int, begin uint32) {
	w, n, root := &x.warpConnections[i], x.has(iteration, i), x.a.Ends&ptx.EndRoot != 0
	var chunks [][]byte
	if root {
		chunks = x.readChunks(x.a.In, x.a.Bytes, iteration, i, n)
	} else {
		chunks = x.take(w, n)
	}
	if x.a.Ends&ptx.EndLast == 0 {
		if iteration >= x.a.Slots {
			x.awaitCredit(w, w.number-x.a.Slots+1, WaitForCredit)
		} else if iteration != 0 {
			x.awaitCredit(w, begin, WaitForEntry)
		}
		x.put(w, chunks)
	}
	if root {
		x.step(w)
		return
	}
	if !x.aborted {
		x.writeChunks(x.a.Out, x.a.Bytes, iteration, i, chunks)
	}
	x.clear(w, n)
}
