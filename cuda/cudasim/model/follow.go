package model

import (
	"encoding/binary"

	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// follower is a block of a kernel that goes behind copy engines.
type follower struct {
	member
	a       *ptx.FollowArgs
	without Wait
	blank   [line]byte
	warps   uint32 // of a block
	taken   int    // by the clerk's count
	gone    int    // slices that it has let go
	fold    func(own, come []byte, whole bool) []byte
}

// follow runs such a kernel; fold is nil where nothing is folded.
func follow(l *cudasim.Launch, w Wait, fold func(a *ptx.FollowArgs, own, come []byte, whole bool) []byte) {
	l.Each(func(b *cudasim.Block) {
		b.AwaitBefore()
		a := cudasim.Args[ptx.FollowArgs](l)
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
	follow(l, f.without, func(a *ptx.FollowArgs, own, come []byte, whole bool) []byte {
		divisor := a.Divisor
		if !whole {
			divisor = 0
		}
		return f.fold([][]byte{come, own}, uint64(len(come)), divisor)
	})
}

// moveFollow is MoveFollow without a wait.
type moveFollow struct{ without Wait }

func (m moveFollow) run(l *cudasim.Launch) { follow(l, m.without, nil) }

func (x *follower) count() int { return int(x.a.Steps) * x.a.Slices() }

func (x *follower) takes() bool { return x.a.Chain != ptx.ChainRoot }
func (x *follower) sends() bool { return x.a.Chain != ptx.ChainLast }

// spans calls f for the bytes of so many that the block's warps move at a time.
func (x *follower) spans(bytes uint64, f func(at, n uint64)) {
	step := uint64(x.grid*x.warps) * ptx.LineSpan
	for first := uint64(uint32(x.Index)*x.warps) * ptx.LineSpan; first < bytes; first += step {
		for w := range uint64(x.warps) {
			if at := first + w*ptx.LineSpan; at < bytes {
				f(at, min(ptx.LineSpan, bytes-at))
			}
		}
	}
}

func (x *follower) run() {
	ahead := min(x.a.Own(), 1)
	if ahead > 0 {
		x.send(0)
	}
	for k := range x.count() {
		if x.takes() {
			x.take(k)
		}
		if x.sends() && k+ahead < x.count() {
			x.send(k + ahead)
		}
		if !x.stopped {
			x.StoreRelease32(x.a.Counts+4*uint64(x.Index), uint32(k+1))
		}
	}
}

// send stores the head of a slice, and what is behind its last whole line.
func (x *follower) send(k int) {
	s := x.a.Sent(k)
	from, to, bytes := s.In, x.a.Next+uint64(k%2)*x.a.Slot, s.Bytes
	if k >= x.a.Own() {
		from = s.Out
	}
	freed := k
	if x.a.Chain != 0 && k > 0 {
		freed++
	}
	if x.without != WaitForFreed {
		x.wait(x.rankAt(1), func() bool { return x.free(freed) })
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
	s := x.a.Taken(k)
	slot, step := x.a.Slots+uint64(k%2)*x.a.Slot, uint32(k/x.a.Slices())
	x.spans(s.Bytes, func(i, n uint64) {
		var own []byte
		if step < x.a.Folds && !x.stopped {
			own = x.read(s.In+i, lines(n), n)[:n]
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
		x.write(s.Out+i, come, n)
	})
}

// steer is what the last block does.
func (x *follower) steer() {
	if x.takes() {
		x.StoreRelease32(x.a.Told, 1)
	}
	if !x.sends() {
		x.gone = x.count()
	}
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
		if x.takes() && (x.taken+2 <= x.count() || x.taken < x.count() && x.a.Chain != 0) {
			x.StoreRelease32(x.a.Told, uint32(x.taken+1))
		}
		return true
	}
	k, n := x.gone, x.a.Own()
	if k == x.count() || k >= n && x.taken <= k-n && x.without != WaitForTaken {
		return false
	}
	if x.without != WaitForRoom && !x.free(k) {
		return false
	}
	if from, to := x.a.Copied(x.a.Sent(k).Bytes); from < to {
		x.StoreRelease32(x.a.Go+4*uint64(k%2), 1)
	}
	x.gone++
	return true
}
