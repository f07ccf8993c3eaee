package model

import (
	"encoding/binary"

	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

const (
	stripBytes = 512 // bytes
	lineStrips = ptx.LineSpan / stripBytes
)

// belts is a block of a line kernel, the index-th of some that work together: its warps do each thing one after the other.
type belts struct {
	member
	a       *ptx.LinesArgs
	index   int
	without Wait
	blank   [line]byte
	belts   []belt
	sweeps
}

// belt is a warp of it: its index among all that line memory is for, and the number and place of its next step.
type belt struct{ index, number, place uint32 }

func newBelts(b *cudasim.Block, a *ptx.LinesArgs, index int, grid uint32, w Wait) *belts {
	b.AwaitBefore()
	x := &belts{member: member{Block: b, g: &a.Group, grid: grid}, a: a, index: index, without: w}
	for i, word := range a.Blank {
		binary.LittleEndian.PutUint32(x.blank[4*i:], word)
	}
	for i := range uint32(b.Threads / 32) {
		w := belt{index: uint32(index)*b.Threads/32 + i}
		count := a.Counts + 8*uint64(w.index)
		w.number, w.place = x.LoadVolatile32(count), x.LoadVolatile32(count+4)
		x.belts = append(x.belts, w)
	}
	x.sign()
	return x
}

// at returns where strip u of a warp's step lies in the memory at base.
func (x *belts) at(base uint64, w *belt, u uint32) uint64 {
	warps := uint64(x.a.Blocks) * ptx.LineWarps
	return base + (uint64(w.place)*warps+uint64(w.index))*ptx.LineSpan + stripBytes*uint64(u)
}

// put stores the strips of a step.
func (x *belts) put(w *belt, strips [][]byte) {
	for u, b := range strips {
		if !x.stopped {
			x.StoreLines(x.at(x.a.Next, w, uint32(u)), b)
		}
	}
}

// take waits for some strips and makes them blank.
func (x *belts) take(w *belt, n uint32) (strips [][]byte) {
	for u := range n {
		b := make([]byte, stripBytes)
		x.wait(x.rankAt(int(x.a.Before)), func() bool { return x.LoadLines(x.at(x.a.Lines, w, u), b, x.blank) })
		strips = append(strips, b)
	}
	for u := range n {
		if !x.stopped {
			x.Blank(x.at(x.a.Lines, w, u), stripBytes/line, x.blank)
		}
	}
	return strips
}

// clear reads back what was made blank, unless that is what is left out, and goes on to the next step.
func (x *belts) clear(w *belt, n uint32) {
	for u := range n {
		if !x.stopped && x.without != WaitForBlank {
			x.Blanked(x.at(x.a.Lines, w, u), stripBytes/line)
		}
	}
	x.step(w)
}

func (x *belts) step(w *belt) {
	w.number++
	if w.place++; w.place == x.a.Places {
		w.place = 0
	}
}

// sign says of all warps that all steps before the next one are cleared; heard waits until the next rank has said so of n, unless
// that is left out.
func (x *belts) sign() {
	for _, w := range x.belts {
		if !x.stopped {
			x.StoreVolatile32(x.a.Told+4*uint64(w.index), w.number)
		}
	}
}

func (x *belts) heard(w *belt, n uint32, which Wait) {
	if x.without != which {
		x.wait(x.rankAt(int(x.a.After)), func() bool { return int32(x.LoadVolatile32(x.a.Signs+4*uint64(w.index))-n) >= 0 })
	}
}

func (x *belts) leave() {
	for _, w := range x.belts {
		if !x.stopped {
			x.StoreVolatile32(x.a.Counts+8*uint64(w.index), w.number)
			x.StoreVolatile32(x.a.Counts+8*uint64(w.index)+4, w.place)
		}
	}
}

// sweeps deals the strips of a tensor to the warps of a grid.
type sweeps struct{ warps, all, strips, count uint32 }

func (x *belts) deal(bytes uint64) {
	s := &x.sweeps
	s.warps, s.all = x.grid*uint32(len(x.belts)), uint32((bytes+stripBytes-1)/stripBytes)
	s.count = (s.all + s.warps*lineStrips - 1) / (s.warps * lineStrips)
	s.strips = (s.all + s.warps*s.count - 1) / (s.warps * s.count)
}

// strip returns which strip of the tensor strip u of a sweep is, for the i-th warp of the block.
func (x *belts) strip(sweep, u uint32, i int) uint64 {
	return uint64((sweep*x.sweeps.strips+u)*x.sweeps.warps + uint32(x.index*len(x.belts)+i))
}

// has returns how many strips the i-th warp has in a sweep.
func (x *belts) has(sweep uint32, i int) uint32 {
	n := uint32(1)
	for u := uint32(1); u < x.sweeps.strips && x.strip(sweep, u, i) < uint64(x.sweeps.all); u++ {
		n++
	}
	return n
}

// readStrips returns n strips of the bytes at p, which are left of all.
func (x *belts) readStrips(p, bytes uint64, sweep uint32, i int, n uint32) (strips [][]byte) {
	for u := range n {
		at := x.strip(sweep, u, i) * stripBytes
		strips = append(strips, x.read(p+at, stripBytes/line, within(at, stripBytes, bytes)))
	}
	return strips
}

func (x *belts) writeStrips(p, bytes uint64, sweep uint32, i int, strips [][]byte) {
	for u, b := range strips {
		at := x.strip(sweep, uint32(u), i) * stripBytes
		x.write(p+at, b, within(at, stripBytes, bytes))
	}
}

// lines is AllReduceLines.
func (f folder) lines(l *cudasim.Launch) {
	l.Each(func(b *cudasim.Block) {
		x := newBelts(b, cudasim.Args[ptx.LinesArgs](l), b.Index, l.Grid, f.without)
		x.deal(x.a.Part)
		for sweep := range x.sweeps.count {
			f.sweep(x, sweep)
		}
		x.leave()
	})
}

// sweep has some strips of every part go round.
func (f folder) sweep(x *belts, sweep uint32) {
	for s := range 2*x.size() - 1 {
		for i := range x.belts {
			f.turn(x, sweep, s, i)
		}
	}
}

// turn takes the i-th warp's strips of the part that has been put s times, adds its own or keeps them, and puts them.
func (f folder) turn(x *belts, sweep uint32, s, i int) {
	w, n, last := &x.belts[i], x.has(sweep, i), 2*x.size()-2
	from := uint64((int(x.g.Rank)-s+2*x.size())%x.size()) * x.a.Part
	bytes := within(from, x.a.Part, x.a.Bytes)
	var own [][]byte
	if s < x.size() {
		own = x.readStrips(x.a.In+from, bytes, sweep, i, n)
	}
	if s == 0 {
		x.put(w, own)
		return
	}
	strips := x.take(w, n)
	if s < x.size() {
		divisor := x.a.Divisor
		if s < x.size()-1 {
			divisor = 0
		}
		f.addStrips(strips, own, divisor, func(u uint32) uint64 { return within(x.strip(sweep, u, i)*stripBytes, stripBytes, bytes) })
	}
	x.clear(w, n)
	if s < last {
		x.put(w, strips)
	}
	if s >= x.size()-1 && !x.stopped {
		x.writeStrips(x.a.Out+from, bytes, sweep, i, strips)
	}
}

// addStrips reduces own into strips, of each of which left bytes are elements.
func (f folder) addStrips(strips, own [][]byte, divisor uint32, left func(u uint32) uint64) {
	for u := range strips {
		n := left(uint32(u))
		strips[u] = append(f.fold([][]byte{strips[u], own[u]}, n, divisor), make([]byte, stripBytes-n)...)
	}
}

// lineChain is BroadcastLines without a wait.
type lineChain struct{ without Wait }

func (c lineChain) broadcast(l *cudasim.Launch) {
	l.Each(func(b *cudasim.Block) { c.handOn(b, cudasim.Args[ptx.LinesArgs](l), b.Index, l.Grid) })
}

// handOn is a broadcast by some blocks, of which b is the index-th.
func (c lineChain) handOn(b *cudasim.Block, a *ptx.LinesArgs, index int, blocks uint32) {
	x := newBelts(b, a, index, blocks, c.without)
	x.deal(x.a.Bytes)
	begin := make([]uint32, len(x.belts))
	for i, w := range x.belts {
		begin[i] = w.number
	}
	for sweep := range x.sweeps.count {
		for i := range x.belts {
			x.hop(sweep, i, begin[i])
		}
		x.sign()
	}
	for i := range x.belts {
		if w := &x.belts[i]; x.a.Ends&ptx.LineLast == 0 {
			x.heard(w, w.number, WaitForLastSign)
		}
	}
	x.leave()
}

// hop hands on and keeps a warp's strips of a sweep.
func (x *belts) hop(sweep uint32, i int, begin uint32) {
	w, n, root := &x.belts[i], x.has(sweep, i), x.a.Ends&ptx.LineRoot != 0
	var strips [][]byte
	if root {
		strips = x.readStrips(x.a.In, x.a.Bytes, sweep, i, n)
	} else {
		strips = x.take(w, n)
	}
	if x.a.Ends&ptx.LineLast == 0 {
		if sweep >= x.a.Places {
			x.heard(w, w.number-x.a.Places+1, WaitForSign)
		} else if sweep != 0 {
			x.heard(w, begin, WaitForEntry)
		}
		x.put(w, strips)
	}
	if root {
		x.step(w)
		return
	}
	if !x.stopped {
		x.writeStrips(x.a.Out, x.a.Bytes, sweep, i, strips)
	}
	x.clear(w, n)
}
