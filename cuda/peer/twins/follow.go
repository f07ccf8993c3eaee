package twins

import (
	"encoding/binary"

	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels"
)

// follower is a block of a kernel that goes behind copy engines.
type follower struct {
	member
	a       *kernels.FollowArgs
	without Wait
	blank   [line]byte
	warps   uint32 // of a block
	taken   int    // by the clerk's count
	gone    int    // slices that it has let go
	fold    func(own, come []byte, whole bool) []byte
}

// follow runs such a kernel; fold is nil where nothing is folded.
func follow(l *cudasim.Launch, w Wait, fold func(a *kernels.FollowArgs, own, come []byte, whole bool) []byte) {
	l.Each(func(b *cudasim.Block) {
		b.AwaitBefore()
		a := cudasim.Args[kernels.FollowArgs](l)
		x := &follower{member: member{Block: b, g: &a.Group, grid: l.Grid - 1}, a: a, without: w, warps: b.Threads / 32}
		x.fold = func(own, come []byte, whole bool) []byte { return fold(a, own, come, whole) }
		for i, word := range a.Blank {
			binary.LittleEndian.PutUint32(x.blank[4*i:], word)
		}
		if uint32(b.Index) < x.grid {
			x.run()
		} else {
			x.steer()
		}
	})
}

func (f folder) follow(l *cudasim.Launch) {
	follow(l, f.without, func(a *kernels.FollowArgs, own, come []byte, whole bool) []byte {
		divisor := a.Divisor
		if !whole {
			divisor = 0
		}
		return f.fold([][]byte{come, own}, uint64(len(come)), divisor)
	})
}

// gatherFollow is AllGatherFollow without a wait.
type gatherFollow struct{ without Wait }

func (g gatherFollow) run(l *cudasim.Launch) { follow(l, g.without, nil) }

func (x *follower) count() int { return int(x.a.Steps) * x.a.Slices() }

// spans calls f for the bytes of so many that the block's warps move at a time.
func (x *follower) spans(bytes uint64, f func(at, n uint64)) {
	step := uint64(x.grid*x.warps) * kernels.LineSpan
	for first := uint64(uint32(x.Index)*x.warps) * kernels.LineSpan; first < bytes; first += step {
		for w := range uint64(x.warps) {
			if at := first + w*kernels.LineSpan; at < bytes {
				f(at, min(kernels.LineSpan, bytes-at))
			}
		}
	}
}

func (x *follower) run() {
	x.send(0)
	for k := range x.count() {
		x.take(k)
		if k+1 < x.count() {
			x.send(k + 1)
		}
		if !x.stopped {
			x.StoreRelease32(x.a.Counts+4*uint64(x.Index), uint32(k+1))
		}
	}
}

// send stores the head of a slice, and what is behind its last whole line.
func (x *follower) send(k int) {
	at, bytes := x.a.Sent(k)
	from, to := x.a.In+at, x.a.Next+uint64(k%2)*x.a.Slot
	if k >= x.a.Slices() {
		from = x.a.Out + at
	}
	if x.without != WaitForFreed {
		x.wait(x.rankAt(1), func() bool { return x.free(k) })
	}
	head, end := x.a.Copied(bytes)
	x.spans(bytes, func(i, n uint64) {
		switch {
		case x.stopped:
		case i < head:
			x.StoreLines(to+i, x.read(from+i, lines(n), n))
		case end < i+n && end < bytes:
			x.StoreLines(to+end, x.read(from+end, 1, bytes-end))
		}
	})
}

// take takes a slice.
func (x *follower) take(k int) {
	at, bytes := x.a.Taken(k)
	slot, step := x.a.Slots+uint64(k%2)*x.a.Slot, uint32(k/x.a.Slices())
	x.spans(bytes, func(i, n uint64) {
		var own []byte
		if step < x.a.Folds && !x.stopped {
			own = x.read(x.a.In+at+i, lines(n), n)[:n]
		}
		come := make([]byte, n)
		x.wait(x.rankAt(x.size()-1), func() bool { return x.LoadLines(slot+i, come, x.blank) })
		if x.stopped {
			return
		}
		if x.without != WaitForBlank {
			x.Blank(slot+i, int(lines(n)), x.blank)
		}
		if own != nil {
			come = x.fold(own, come, step+1 == x.a.Folds)
		}
		x.write(x.a.Out+at+i, come, n)
	})
}

// steer is what the last block does.
func (x *follower) steer() {
	x.StoreRelease32(x.a.Told, 1)
	for x.taken < x.count() || x.gone < x.count() {
		if !x.until(x.advance) {
			return
		}
	}
	for b := range x.grid {
		x.StoreVolatile32(x.a.Counts+4*uint64(b), 0)
	}
	x.StoreVolatile32(x.a.Freed, 0)
}

// through reports whether all blocks have taken n slices, free whether the next rank has room for the k-th.
func (x *follower) through(n uint32) bool {
	all := true
	for b := range x.grid {
		all = x.LoadAcquire32(x.a.Counts+4*uint64(b)) >= n && all
	}
	return all
}

func (x *follower) free(k int) bool { return x.LoadAcquire32(x.a.Freed) >= uint32(max(k, 1)) }

// advance looks at what the clerk waits for, and says what it can.
func (x *follower) advance() bool {
	if x.taken < x.count() && x.through(uint32(x.taken+1)) {
		x.taken++
		if x.taken+2 <= x.count() {
			x.StoreRelease32(x.a.Told, uint32(x.taken+1))
		}
		return true
	}
	k, n := x.gone, x.a.Slices()
	if k == x.count() || k >= n && x.taken <= k-n && x.without != WaitForTaken {
		return false
	}
	if x.without != WaitForRoom && !x.free(k) {
		return false
	}
	_, bytes := x.a.Sent(k)
	if from, to := x.a.Copied(bytes); from < to {
		x.StoreRelease32(x.a.Go+4*uint64(k%2), 1)
	}
	x.gone++
	return true
}
