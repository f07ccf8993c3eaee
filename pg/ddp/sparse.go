package ddp

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/pg/sparse"
)

// sparseGrads are the sparse gradients of a reducer, by parameter.
type sparseGrads struct {
	rows map[int][]int64       // that all ranks have agreed on
	own  map[int]sparse.Tensor // of this step
	sums map[int]sparse.Tensor // of the last step
}

func (s *sparseGrads) reset() { clear(s.own) }

// SetSparseRows tells which rows a parameter's sparse gradients have in the steps that follow. The list ascends, is the same on all
// ranks, and has all indices of every rank. Then the gradients cost one all-reduce of those rows. c10d: _set_sparse_metadata.
func (r *Reducer) SetSparseRows(i int, rows []int64) error {
	if i < 0 || i >= len(r.params) || r.params[i].SparseRows == 0 {
		return fmt.Errorf("ddp: rank %d: parameter %d of %d has no sparse gradient", r.g.Rank(), i, len(r.params))
	}
	if r.sparse.rows == nil {
		r.sparse.rows = map[int][]int64{}
	}
	r.sparse.rows[i] = slices.Clone(rows)
	return nil
}

// ReadySparse says that a parameter's sparse gradient is there, once in a step. It is reduced by Finish, and must not change before.
// On a device the rows must have been set, and the gradient must have just these.
func (r *Reducer) ReadySparse(ctx context.Context, i int, grad sparse.Tensor) error {
	if i < 0 || i >= len(r.params) || r.params[i].SparseRows == 0 {
		return fmt.Errorf("ddp: rank %d: parameter %d of %d has no sparse gradient", r.g.Rank(), i, len(r.params))
	}
	p := &r.params[i]
	if r.ready[i] {
		return r.twice(i)
	}
	if grad.Rows != p.SparseRows || grad.Values.DType() != p.Grad.DType() || len(grad.Values.Shape()) == 0 || !slices.Equal(grad.Values.Shape()[1:], p.Grad.Shape()) {
		return fmt.Errorf("ddp: rank %d: gradient of %s: %v of %d rows, its rows are %v of %d", r.g.Rank(), p.Name, grad.Values, grad.Rows, p.Grad, p.SparseRows)
	}
	if err := r.begin(ctx, computes); err != nil {
		return fmt.Errorf("ddp: rank %d: %w", r.g.Rank(), err)
	}
	if r.o.StaticGraph {
		r.uses.last(r, i)
	}
	if r.sparse.own == nil {
		r.sparse.own = map[int]sparse.Tensor{}
	}
	r.sparse.own[i], r.ready[i] = grad, true
	return nil
}

// Sparse returns the mean of a parameter's sparse gradients of the last step. Rows that no rank had are not there, unless
// the rows were set.
func (r *Reducer) Sparse(i int) sparse.Tensor { return r.sparse.sums[i] }

// reduce reduces the sparse gradients, parameter after parameter. A gradient that is missing has no rows.
func (s *sparseGrads) reduce(ctx context.Context, r *Reducer) error {
	for i := range r.params {
		p := &r.params[i]
		if p.SparseRows == 0 {
			continue
		}
		grad, ok := s.own[i]
		if !ok {
			if p.Grad.Device().Kind != colligo.CPU {
				return fmt.Errorf("sparse gradient of %s on %v: it is missing, and has no memory for the rows of others", p.Name, p.Grad.Device())
			}
			grad = sparse.Tensor{Rows: p.SparseRows, Values: colligo.Bytes(nil, p.Grad.DType(), append([]int{0}, p.Grad.Shape()...)...)}
		}
		sum, err := s.mean(ctx, r, i, grad)
		if err != nil {
			return fmt.Errorf("sparse gradient of %s: %w", p.Name, err)
		}
		if s.sums == nil {
			s.sums = map[int]sparse.Tensor{}
		}
		s.sums[i] = sum
	}
	return nil
}

// mean returns the mean of the ranks' gradients of a parameter.
func (s *sparseGrads) mean(ctx context.Context, r *Reducer, i int, grad sparse.Tensor) (sparse.Tensor, error) {
	b := Bucket{ranks: r.joining.ranks(&r.o)}
	if rows, ok := s.rows[i]; ok {
		return sparse.AllReduceAt(ctx, r.g, grad, rows, b.Mean(r.g))
	}
	if grad.Values.Device().Kind != colligo.CPU {
		return sparse.Tensor{}, errors.New("on a device its rows must be known: SetSparseRows")
	}
	ranks := r.g.Size()
	if b.ranks != 0 {
		ranks = b.ranks
	}
	v := grad.Values
	k, err := kernels.Lookup(v.DType(), colligo.KindPremulSum)
	if err != nil {
		return sparse.Tensor{}, err
	}
	weighted := make([]byte, v.Size())
	k.Scale(weighted, v.CPUBytes(), 1/float64(ranks))
	grad.Values = colligo.Bytes(weighted, v.DType(), v.Shape()...)
	return sparse.AllReduce(ctx, r.g, grad, colligo.Sum)
}
