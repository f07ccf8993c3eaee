package model

import (
	"encoding/binary"

	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// fusedBlock is a block of a kernel that is fused with copy engines.
type fusedBlock struct {
	member
	a        *ptx.FusedArgs
	without  Wait
	sentinel [line]byte
	warps    uint32 // of a block
	taken    int    // slices that all blocks have taken, as the signalling block knows
	gone     int    // slices that the signalling block has let go
	fold     func(own, come []byte, first, whole bool) []byte
}

// runFused runs such a kernel. fold is nil if nothing is folded.
func runFused(l *cudasim.Launch, w Wait, fold func(a *ptx.FusedArgs, own, come []byte, first, whole bool) []byte) {
	l.Each(func(b *cudasim.Block) {
		b.AwaitBefore()
		a := cudasim.Args[ptx.FusedArgs](l)
		x := &fusedBlock{member: newMember(b, &a.Group, l.Grid-1), a: a, without: w, warps: b.Threads / 32}
		x.fold = func(own, come []byte, first, whole bool) []byte { return fold(a, own, come, first, whole) }
		for i, word := range a.Sentinel {
			binary.LittleEndian.PutUint32(x.sentinel[4*i:], word)
		}
		switch {
		case x.aborted:
		case uint32(b.Index) < x.grid:
			x.run()
		default:
			x.signal()
		}
	})
}

func (f folder) fused(l *cudasim.Launch) {
	runFused(l, f.without, func(a *ptx.FusedArgs, own, come []byte, first, whole bool) []byte {
		return f.step([][]byte{own, come}, uint64(len(come)), kernels.Step{Ranks: int(a.Divisor), SumLast: !first, Partial: !whole})
	})
}

// moveFused is MoveFused. It leaves out one kind of wait.
type moveFused struct{ without Wait }

func (m moveFused) run(l *cudasim.Launch) { runFused(l, m.without, nil) }

func (x *fusedBlock) count() int { return int(x.a.Steps) * x.a.Slices() }

func (x *fusedBlock) takes() bool { return x.a.Chain != ptx.ChainRoot }

func (x *fusedBlock) sends() bool { return x.a.Chain != ptx.ChainLast }

// spans calls f for each span of a slice that the block's warps move.
func (x *fusedBlock) spans(bytes uint64, f func(at, n uint64)) {
	step := uint64(x.grid*x.warps) * ptx.SentinelSpan
	for first := uint64(uint32(x.Index)*x.warps) * ptx.SentinelSpan; first < bytes; first += step {
		for w := range uint64(x.warps) {
			if at := first + w*ptx.SentinelSpan; at < bytes {
				f(at, min(ptx.SentinelSpan, bytes-at))
			}
		}
	}
}

func (x *fusedBlock) run() {
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
		if !x.aborted {
			x.StoreRelease32(x.a.Counts+4*uint64(x.Index), uint32(k+1))
		}
	}
}

// send stores the head of a slice, and the bytes behind its last whole line.
func (x *fusedBlock) send(k int) {
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
		case x.aborted:
		case i < head:
			x.StoreSentinel(to+i, x.read(from+i, lines(n), n))
		case end < i+n && end < bytes:
			x.StoreSentinel(to+end, x.read(from+end, 1, bytes-end))
		}
	})
}

// take takes a slice.
func (x *fusedBlock) take(k int) {
	s := x.a.Taken(k)
	slot, step := x.a.Slots+uint64(k%2)*x.a.Slot, uint32(k/x.a.Slices())
	x.spans(s.Bytes, func(i, n uint64) {
		var own []byte
		if step < x.a.Folds && !x.aborted {
			own = x.read(s.In+i, lines(n), n)[:n]
		}
		come := make([]byte, n)
		x.wait(x.rankAt(x.size()-1), func() bool { return x.LoadSentinel(slot+i, come, x.sentinel) })
		if x.aborted {
			return
		}
		if x.without != WaitForClear {
			x.Clear(slot+i, int(lines(n)), x.sentinel)
		}
		if own != nil {
			come = x.fold(own, come, step == 0, step+1 == x.a.Folds)
		}
		x.write(s.Out+i, come, n)
	})
}

// signal is the work of the last block, the signalling block.
func (x *fusedBlock) signal() {
	if x.takes() {
		x.StoreRelease32(x.a.PrevCredit, 1)
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
	x.StoreVolatile32(x.a.Credit, 0)
}

// through reports whether all blocks have taken n slices, free whether the next rank's slot is empty for slice k.
func (x *fusedBlock) through(n uint32) bool {
	all := true
	for b := range x.grid {
		all = x.LoadAcquire32(x.a.Counts+4*uint64(b)) >= n && all
	}
	return all
}

func (x *fusedBlock) free(k int) bool { return x.LoadAcquire32(x.a.Credit) >= uint32(max(k, 1)) }

// advance polls the words that the signalling block waits for, and signals what they allow. It reports whether it signalled.
func (x *fusedBlock) advance() bool {
	if x.taken < x.count() && x.through(uint32(x.taken+1)) {
		x.taken++
		if x.takes() && (x.taken+2 <= x.count() || x.taken < x.count() && x.a.Chain != 0) {
			x.StoreRelease32(x.a.PrevCredit, uint32(x.taken+1))
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
