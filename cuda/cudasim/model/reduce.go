package model

import (
	"bytes"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// folder makes the model kernels of a kind of reduction.
type folder struct {
	dtype colligo.DType // real
	kind  colligo.OpKind

	without Wait // the wait that sentinel and fused kernels leave out
}

// fold reduces one operand of each rank, in rank order. A last line may be short, and bytes behind the last element are left out.
func (f folder) fold(all [][]byte, n uint64, divisor uint32) []byte {
	return f.step(all, n, kernels.Step{Ranks: int(divisor)})
}

// step reduces operands of which the last may be a sum of several ranks, as in a ring.
func (f folder) step(all [][]byte, n uint64, s kernels.Step) []byte {
	sum, src := make([]byte, n), make([][]byte, len(all))
	for i := range all {
		src[i] = all[i][:n]
	}
	if err := kernels.FoldStep(f.dtype, f.kind, sum, src, s); err != nil {
		panic(err)
	}
	return sum
}

func (f folder) reduceTwo(l *cudasim.Launch) {
	a := cudasim.Args[ptx.ReduceArgs](l)
	l.Each(func(b *cudasim.Block) {
		m := &member{Block: b, grid: l.Grid}
		m.mine(lines(a.Bytes), func(i, n uint64) {
			at, left := line*i, within(line*i, n*line, a.Bytes)
			x, y := m.Load(a.In[0]+at, int(left)), m.Load(a.In[1]+at, int(left))
			s := kernels.Step{Ranks: int(a.Divisor), SumLast: a.Sums != 0, Partial: a.Partial != 0}
			m.write(a.Out+at, f.step([][]byte{x, y}, left, s), left)
		})
	})
}

func (f folder) scale(l *cudasim.Launch) {
	a := cudasim.Args[ptx.UnaryArgs](l)
	n := int(a.Count) * f.dtype.Size()
	x := bytes.Clone(l.Load(a.In, n))
	k, err := kernels.Lookup(f.dtype, f.kind)
	if err != nil {
		panic(err)
	}
	factor := a.Factor
	if a.FactorAt != 0 {
		if factor, err = kernels.Scalar(colligo.Bytes(l.Load(a.FactorAt, f.dtype.Size()), f.dtype)); err != nil {
			panic(err)
		}
	}
	k.Scale(x, x, factor)
	copy(l.Store(a.Out, n), x)
}

// gather folds n lines of every peer's slot in this rank's memory, and this rank's own lines, mine.
func (f folder) gather(p *llBlock, own, span, i, n uint64, mine []byte, left uint64, divisor uint32) []byte {
	all := make([][]byte, p.size())
	for q := range all {
		if q == int(p.g.Rank) {
			all[q] = mine
		} else {
			all[q] = p.take(p.slot(own, q, int(p.g.Rank)), span, i, n, q)
		}
	}
	return f.fold(all, left, divisor)
}

func (f folder) ll(l *cudasim.Launch) {
	a := cudasim.Args[ptx.AllReduceArgs](l)
	asLL(l, &a.Group, func(p *llBlock) {
		span := uint64(p.g.LLSlot) / 2
		p.mine(lines(a.Bytes), func(i, n uint64) {
			b := p.read(a.In+line*i, n, a.Bytes-line*i)
			for d := 1; d < p.size(); d++ {
				p.put(p.slot(p.g.LL[d], int(p.g.Rank), p.rankAt(d)), span, i, b)
			}
		})
		p.arrive()
		p.mine(lines(a.Bytes), func(i, n uint64) {
			left := within(line*i, n*line, a.Bytes)
			p.write(a.Out+line*i, f.gather(p, p.g.LL[0], span, i, n, p.read(a.In+line*i, n, left), left, a.Divisor), left)
		})
	})
}

func (f folder) llTwoShot(l *cudasim.Launch) {
	a := cudasim.Args[ptx.AllReduceArgs](l)
	asLL(l, &a.Group, func(p *llBlock) {
		span := uint64(p.g.LLSlot) / 4
		part := func(q int) (from, n uint64) {
			from = uint64(q) * a.Part
			return from, within(from, a.Part, a.Bytes)
		}
		for d := 1; d < p.size(); d++ {
			from, all := part(p.rankAt(d))
			p.mine(lines(all), func(i, n uint64) {
				p.put(p.slot(p.g.LL[d], int(p.g.Rank), p.rankAt(d)), span, i, p.read(a.In+from+line*i, n, all-line*i))
			})
		}
		p.arrive()
		from, all := part(int(p.g.Rank))
		p.mine(lines(all), func(i, n uint64) {
			left := within(line*i, n*line, all)
			sum := f.gather(p, p.g.LL[0], span, i, n, p.read(a.In+from+line*i, n, left), left, a.Divisor)
			whole := append(sum[:left:left], make([]byte, n*line-left)...)
			for d := 1; d < p.size(); d++ {
				p.put(p.slot(p.g.LL[d], int(p.g.Rank), p.rankAt(d))+2*span, span, i, whole)
			}
			p.write(a.Out+from+line*i, sum, left)
		})
		for d := 1; d < p.size(); d++ {
			q := p.rankAt(d)
			from, all := part(q)
			p.mine(lines(all), func(i, n uint64) {
				p.write(a.Out+from+line*i, p.take(p.slot(p.g.LL[0], q, int(p.g.Rank))+2*span, span, i, n, q), all-line*i)
			})
		}
	})
}

func (f folder) scatterLLEven(l *cudasim.Launch) {
	a := cudasim.Args[ptx.EvenArgs](l)
	asLL(l, &a.Group, func(p *llBlock) {
		span := p.sendEven(a)
		from := a.In + uint64(p.g.Rank)*a.Step
		p.mine(lines(a.Part), func(i, n uint64) {
			sum := f.gather(p, p.g.LL[0], span, i, n, p.read(from+line*i, n, n*line), n*line, a.Divisor)
			p.write(a.Out+line*i, sum, n*line)
		})
	})
}

func (f folder) scatterLL(l *cudasim.Launch) {
	a := cudasim.Args[ptx.ReduceScatterArgs](l)
	asLL(l, &a.Group, func(p *llBlock) {
		span := uint64(p.g.LLSlot) / 2
		for d := 1; d < p.size(); d++ {
			from, all, slot := a.In+a.Offset[d], a.Bytes[d], p.slot(p.g.LL[d], int(p.g.Rank), p.rankAt(d))
			p.mine(max(lines(all), 1), func(i, n uint64) {
				p.put(slot, span, i, p.read(from+line*i, n, within(line*i, n*line, all)))
			})
		}
		p.arrive()
		all := a.Bytes[0]
		p.mine(max(lines(all), 1), func(i, n uint64) {
			left := within(line*i, n*line, all)
			sum := f.gather(p, p.g.LL[0], span, i, n, p.read(a.In+a.Offset[0]+line*i, n, left), left, a.Divisor)
			p.write(a.Out+line*i, sum, left)
		})
	})
}
