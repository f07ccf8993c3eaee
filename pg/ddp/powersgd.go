package ddp

import (
	"cmp"
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
	// SameShapeTogether has matrices of one shape follow one another, so that their factors travel side by side. The result is the
	// same. c10d: batch_tensors_with_same_shape.
	SameShapeTogether bool
	// MinCompressionRate is how many times smaller the factors of a matrix must be than it; 2 if 0. Other matrices are sent as
	// they are. c10d: min_compression_rate.
	MinCompressionRate float64
	Seed               uint64
}

// PowerSGD approximates gradients by products of two thin matrices and sends those (Vogels, Karimireddy, Jaggi: PowerSGD,
// Practical Low-Rank Gradient Compression for Distributed Optimization, NeurIPS 2019). A gradient of shape (n, m, …) is a
// matrix of n rows. Vectors are sent as they are, and so are matrices that it would not make much smaller. The CPU computes.
// Gradients on a device need a Transferer, and the hook waits there until they are computed. The approximations are sent in
// the gradients' type, from the device.
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
	if o.MinCompressionRate == 0 {
		o.MinCompressionRate = 2
	}
	if o.Rank < 0 || o.Start < 0 || o.MinCompressionRate < 0 {
		return nil, fmt.Errorf("ddp: powersgd of rank %d after %d steps", o.Rank, o.Start)
	}
	return &PowerSGD{o: o, states: map[key]*matrixState{}}, nil
}

// Hook is the hook. c10d: powerSGD_hook, batched_powerSGD_hook.
func (s *PowerSGD) Hook(ctx context.Context, g *pg.Group, b *Bucket) (*Future, error) {
	if b.Index == 0 {
		s.step++
	}
	step := s.step - 1
	if step < s.o.Start {
		return AllReduce(ctx, g, b)
	}
	values, err := b.read(ctx, b.Buffer)
	if err != nil {
		return nil, fmt.Errorf("powersgd: %w", err)
	}
	p := &powerStep{s: s, g: g, b: b, values: values}
	s.cut(p)
	if s.o.SameShapeTogether {
		slices.SortStableFunc(p.matrices, func(m, n *matrix) int { return cmp.Or(m.rows-n.rows, m.cols-n.cols) })
	}
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
	return p.start(ctx)
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

// worth reports whether two thin matrices are so much smaller than one of n elements as demanded.
func (s *PowerSGD) worth(rows, n int) bool {
	if n == 0 {
		return false
	}
	rank := min(s.o.Rank, rows, n/rows)
	return float64((rows+n/rows)*rank)*s.o.MinCompressionRate < float64(n)
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
func (p *powerStep) start(ctx context.Context) (*Future, error) {
	parts := append([][]float64(nil), p.plain...)
	for _, m := range p.matrices {
		parts = append(parts, m.p)
	}
	first, err := p.mean(ctx, "first factors", parts)
	if err != nil {
		return nil, err
	}
	return first.Then(func(ctx context.Context, _ colligo.Tensor) (colligo.Tensor, error) {
		var second [][]float64
		for _, m := range p.matrices {
			orthogonalize(m.p, m.rows, m.rank)
			m.state.q = multiplyTransposed(m.values, m.p, m.rows, m.cols, m.rank)
			second = append(second, m.state.q)
		}
		f, err := p.mean(ctx, "second factors", second)
		if err != nil {
			return colligo.Tensor{}, err
		}
		return f.Wait(ctx)
	}).Then(func(ctx context.Context, _ colligo.Tensor) (colligo.Tensor, error) { return p.end(ctx) }), nil
}

// mean replaces numbers by their means over all ranks, sent in the bucket's type.
func (p *powerStep) mean(ctx context.Context, what string, parts [][]float64) (*Future, error) {
	n := 0
	for _, v := range parts {
		n += len(v)
	}
	flat := make([]float64, 0, n)
	for _, v := range parts {
		flat = append(flat, v...)
	}
	t, err := p.b.room(what, p.b.Buffer.DType(), n)
	if err != nil || n == 0 {
		return Ready(t), err
	}
	if err := p.b.write(ctx, t, flat); err != nil {
		return nil, err
	}
	w := p.g.AllReduceAsync(ctx, t, p.b.Mean(p.g))
	return After(w, t).Then(func(ctx context.Context, t colligo.Tensor) (colligo.Tensor, error) {
		rest, err := p.b.read(ctx, t)
		if err != nil {
			return t, err
		}
		for _, v := range parts {
			rest = rest[copy(v, rest):]
		}
		return t, nil
	}), nil
}

// end puts the approximations in place of the gradients.
func (p *powerStep) end(ctx context.Context) (colligo.Tensor, error) {
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
	return p.b.Buffer, p.b.write(ctx, p.b.Buffer, p.values)
}
