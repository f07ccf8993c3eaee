package ddp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// PowerSGDOptions say how gradients are compressed. The same on all ranks.
type PowerSGDOptions struct {
	Rank          int  // of the approximation; 1 if 0. Higher is better and more to send
	Start         int  // steps with plain all-reduces before it begins
	ErrorFeedback bool // what an approximation missed is added to the next step's gradient
	WarmStart     bool // an approximation begins with the last step's
	Batched       bool // all gradients of a bucket are one square matrix: faster, less accurate
	Seed          uint64
}

// PowerSGD approximates gradients by products of two thin matrices and sends those (Vogels, Karimireddy, Jaggi: PowerSGD,
// Practical Low-Rank Gradient Compression for Distributed Optimization, NeurIPS 2019). A gradient of shape (n, m, …) is a
// matrix of n rows. Vectors are sent as they are, and so are matrices that it would not make smaller. On the CPU only. The
// approximations are sent in the gradients' type.
type PowerSGD struct {
	o      PowerSGDOptions
	states map[key]*matrixState
	step   int // counts first buckets
}

// key names a matrix through the steps: a gradient by its parameter, all of a bucket by that, with -1. Parameters change their
// buckets after the first step.
type key struct{ bucket, param int }

// matrixState is what is kept of a matrix from step to step.
type matrixState struct {
	params []int     // that the matrix is of
	q      []float64 // cols × rank
	lost   []float64 // rows × cols: what the last approximation missed
}

// NewPowerSGD returns the state of a hook. Each reducer needs its own.
func NewPowerSGD(o PowerSGDOptions) (*PowerSGD, error) {
	if o.Rank == 0 {
		o.Rank = 1
	}
	if o.Rank < 0 || o.Start < 0 {
		return nil, fmt.Errorf("ddp: powersgd of rank %d after %d steps", o.Rank, o.Start)
	}
	return &PowerSGD{o: o, states: map[key]*matrixState{}}, nil
}

// Hook is the hook. c10d: powerSGD_hook, batched_powerSGD_hook.
func (s *PowerSGD) Hook(ctx context.Context, g *pg.Group, b *Bucket) (*Future, error) {
	if err := onHost(b.Buffer); err != nil {
		return nil, fmt.Errorf("powersgd: %w", err)
	}
	if b.Index == 0 {
		s.step++
	}
	step := s.step - 1
	if step < s.o.Start {
		return AllReduce(ctx, g, b)
	}
	p := &powerStep{s: s, g: g, b: b, values: read(b.Buffer)}
	s.cut(p)
	for _, m := range p.matrices {
		if s.o.ErrorFeedback {
			add(m.values, m.state.lost)
		}
		if !s.o.WarmStart || m.fresh {
			s.seed(m, step)
		}
		orthogonalize(m.state.q, m.cols, m.rank)
		m.p = multiply(m.values, m.state.q, m.rows, m.cols, m.rank)
	}
	return p.start(ctx, step), nil
}

// cut finds the matrices of a bucket and what is not compressed.
func (s *PowerSGD) cut(p *powerStep) {
	if s.o.Batched {
		side := 1
		for side*side < len(p.values) {
			side++
		}
		square := make([]float64, side*side)
		copy(square, p.values)
		p.add(key{p.b.Index, -1}, p.b.Params, 0, square, side, side)
		return
	}
	from := 0
	for i, g := range p.b.Grads {
		n := g.Len()
		values := p.values[from : from+n]
		if shape := g.Shape(); len(shape) > 1 && s.worth(shape[0], n) {
			p.add(key{0, p.b.Params[i]}, p.b.Params[i:i+1], from, values, shape[0], n/shape[0])
		} else {
			p.plain = append(p.plain, values)
		}
		from += n
	}
}

// worth reports whether two thin matrices are smaller than one of n elements.
func (s *PowerSGD) worth(rows, n int) bool {
	if n == 0 {
		return false
	}
	rank := min(s.o.Rank, rows, n/rows)
	return (rows+n/rows)*rank < n
}

// seed fills a matrix's q with numbers that are the same on all ranks.
func (s *PowerSGD) seed(m *matrix, step int) {
	r := rand.New(rand.NewPCG(s.o.Seed, uint64(step)<<32|uint64(m.first)))
	for i := range m.state.q {
		m.state.q[i] = r.NormFloat64()
	}
}

// powerStep is a bucket's way through one step.
type powerStep struct {
	s        *PowerSGD
	g        *pg.Group
	b        *Bucket
	values   []float64 // of the buffer
	matrices []*matrix
	plain    [][]float64
}

// matrix is one gradient, or all of a bucket.
type matrix struct {
	first, rows, cols, rank int
	values                  []float64
	p                       []float64 // rows × rank
	state                   *matrixState
	fresh                   bool
}

// add adds a matrix of some parameters, with what is kept of it if they are the same as in the last step.
func (p *powerStep) add(k key, params []int, first int, values []float64, rows, cols int) {
	m := &matrix{first: first, rows: rows, cols: cols, rank: min(p.s.o.Rank, rows, cols), values: values, state: p.s.states[k]}
	if m.fresh = m.state == nil || !slices.Equal(m.state.params, params); m.fresh {
		m.state = &matrixState{params, make([]float64, cols*m.rank), make([]float64, rows*cols)}
		p.s.states[k] = m.state
	}
	p.matrices = append(p.matrices, m)
}

// start sends the first factors and what is not compressed, and chains the rest.
func (p *powerStep) start(ctx context.Context, step int) *Future {
	parts := append([][]float64(nil), p.plain...)
	for _, m := range p.matrices {
		parts = append(parts, m.p)
	}
	return p.mean(ctx, parts).Then(func(ctx context.Context, _ colligo.Tensor) (colligo.Tensor, error) {
		var second [][]float64
		for _, m := range p.matrices {
			orthogonalize(m.p, m.rows, m.rank)
			m.state.q = multiplyTransposed(m.values, m.p, m.rows, m.cols, m.rank)
			second = append(second, m.state.q)
		}
		return p.mean(ctx, second).Wait(ctx)
	}).Then(func(context.Context, colligo.Tensor) (colligo.Tensor, error) { return p.end(), nil })
}

// mean replaces numbers by their means over all ranks, sent in the bucket's type.
func (p *powerStep) mean(ctx context.Context, parts [][]float64) *Future {
	n := 0
	for _, v := range parts {
		n += len(v)
	}
	flat := make([]float64, 0, n)
	for _, v := range parts {
		flat = append(flat, v...)
	}
	t := empty(p.b.Buffer.DType(), n)
	if n == 0 {
		return Ready(t)
	}
	write(t, flat)
	w := p.g.AllReduceAsync(ctx, t, mean(p.g))
	return After(w, t).Then(func(context.Context, colligo.Tensor) (colligo.Tensor, error) {
		rest := read(t)
		for _, v := range parts {
			rest = rest[copy(v, rest):]
		}
		return t, nil
	})
}

// end puts the approximations in place of the gradients.
func (p *powerStep) end() colligo.Tensor {
	for _, m := range p.matrices {
		approximation := product(m.p, m.state.q, m.rows, m.cols, m.rank)
		if p.s.o.ErrorFeedback {
			for i, v := range m.values {
				m.state.lost[i] = v - approximation[i]
			}
		}
		copy(m.values, approximation)
		if p.s.o.Batched {
			copy(p.values, approximation)
		}
	}
	write(p.b.Buffer, p.values)
	return p.b.Buffer
}
