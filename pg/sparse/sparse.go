package sparse

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/backend"
)

// Tensor is a tensor of which only some rows are there, as the gradient of an embedding: PyTorch's COO layout with one sparse
// dimension.
type Tensor struct {
	Rows    int            // of the whole tensor
	Indices []int64        // the rows that are there, in any order; a row that is named twice has the sum of both
	Values  colligo.Tensor // the rows one after the other, of shape [len(Indices), ...], contiguous
}

// width returns the elements of one row. Where there are no rows they can be more than an int counts; then it is the largest.
func (s *Tensor) width() int {
	n := 1
	for _, d := range s.Values.Shape()[1:] {
		if d > 0 && n > math.MaxInt/d {
			n = math.MaxInt
		} else {
			n *= d
		}
	}
	return n
}

// check says what is wrong with a sparse tensor of AllReduce.
func (s *Tensor) check(op colligo.ReduceOp) error {
	switch v := s.Values; {
	case v.Valid() && v.Device().Kind != colligo.CPU:
		return fmt.Errorf("the values are %v, they must be contiguous and on the CPU; AllReduceAt takes devices", v)
	case op.Kind() != colligo.KindSum:
		return fmt.Errorf("%v of sparse tensors, which can only be summed", op)
	}
	return s.checkAny(op)
}

// checkAt says what is wrong with a sparse tensor of AllReduceAt.
func (s *Tensor) checkAt(rows []int64, op colligo.ReduceOp) error {
	v := s.Values
	switch k := op.Kind(); {
	case k != colligo.KindSum && k != colligo.KindAvg && k != colligo.KindPremulSum:
		return fmt.Errorf("%v of sparse tensors, which are sums or means", op)
	case v.Valid() && v.Device().Kind != colligo.CPU && !slices.Equal(s.Indices, rows):
		return fmt.Errorf("values %v of other rows than the %d agreed on: on a device each rank must have just these, in their order", v, len(rows))
	}
	return s.checkAny(op)
}

func (s *Tensor) checkAny(op colligo.ReduceOp) error {
	v := s.Values
	switch {
	case !v.Valid():
		return fmt.Errorf("the values are an invalid tensor")
	case !v.Contiguous():
		return fmt.Errorf("the values are %v, they must be contiguous and on the CPU", v)
	case len(v.Shape()) == 0 || v.Shape()[0] != len(s.Indices):
		return fmt.Errorf("values %v for %d indices", v, len(s.Indices))
	case s.width() > (math.MaxInt-8)/v.DType().Size(): // with the row's index
		return fmt.Errorf("rows of values %v have more bytes than an int can count", v)
	}
	if err := inRange(s.Indices, s.Rows); err != nil {
		return err
	}
	_, err := kernels.Lookup(v.DType(), op.Kind())
	return err
}

func inRange(indices []int64, rows int) error {
	for i, x := range indices {
		if x < 0 || x >= int64(rows) {
			return fmt.Errorf("index %d is %d in a tensor of %d rows", i, x, rows)
		}
	}
	return nil
}

// AllReduce returns the sum of the sparse tensors of all ranks on every rank, bitwise the same. It has the rows that any
// rank has, in ascending order, each summed in the order of the ranks. The result shares no memory with s.
//
// Type, number of rows and the shape of a row must be the same everywhere. Ranks may have different rows, and different
// numbers of them. The ranks exchange these numbers, then indices and values. The lowest Config.MaxObject of all ranks
// limits the memory taken for them.
//
// The values are on the CPU, and a group that has NCCL alone refuses them. If the tensor of one rank is wrong every rank gets an error, and the group goes on. Any later
// error ends it. c10d: all_reduce of sparse tensors.
func AllReduce(ctx context.Context, g *pg.Group, s Tensor, op colligo.ReduceOp) (Tensor, error) {
	return word(allReduce(ctx, g, s, op))
}

// errNCCL refuses sparse tensors where NCCL has to carry them, in the words of c10d.
var errNCCL = errors.New("NCCL does not support all_reduce with sparse tensors. Please use dense tensors instead")

// word says in an error what was called.
func word(s Tensor, err error) (Tensor, error) {
	if err != nil {
		return Tensor{}, fmt.Errorf("pg: all_reduce of a sparse tensor: %w", err)
	}
	return s, nil
}

func allReduce(ctx context.Context, g *pg.Group, s Tensor, op colligo.ReduceOp) (Tensor, error) {
	if !g.IsMember() {
		return Tensor{}, pg.ErrNotMember
	}
	if g.Backend(colligo.CPU) == "" { // the same on all ranks, so none waits for another
		return Tensor{}, errNCCL
	}
	gather := g.AllGather
	sizes := sizes
	if g.Backend(colligo.CPU) == backend.Gloo && g.Size() > 1 {
		var err error
		if s, err = coalesced(g, s, op); err != nil {
			return Tensor{}, err
		}
		sizes = sizesOverGloo
		gather = func(ctx context.Context, outs []colligo.Tensor, in colligo.Tensor) error {
			return pg.AllGatherSparse(ctx, g, outs, in)
		}
	}
	wrong := s.check(op)
	if v := s.Values; v.Valid() && v.Device().Kind != colligo.CPU && g.Backend(v.Device().Kind) == backend.NCCL {
		wrong = errNCCL
	}
	counts, err := sizes(ctx, g, &s, wrong)
	if err != nil {
		return Tensor{}, err
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	width, d := s.width(), s.Values.DType()
	indices, values := make([]int64, total), make([]byte, total*width*d.Size())
	if err := gather(ctx, inParts(colligo.Of(indices), counts, 1), colligo.Of(s.Indices)); err != nil {
		return Tensor{}, err
	}
	all := colligo.Bytes(values, d)
	if err := gather(ctx, inParts(all, counts, width), s.Values); err != nil {
		return Tensor{}, err
	}
	if err := inRange(indices, s.Rows); err != nil {
		return Tensor{}, fmt.Errorf("%w: %w", colligo.ErrCorrupt, err)
	}
	rows := slices.Clone(indices)
	slices.Sort(rows)
	rows = slices.Compact(rows)
	out, err := s.shaped(rows)
	if err != nil {
		return Tensor{}, err
	}
	return out, sumRows(&out, indices, values)
}

// AllReduceAt sums chosen rows of the sparse tensors of all ranks, or with Avg or PremulSum makes their mean. The ranks have agreed on them beforehand: a list in
// ascending order, the same on all ranks, with all indices of every rank. It costs one Group.AllReduce of these rows and no
// exchange of indices. Rows that no rank has are zero. The result shares no memory with s.
//
// On a device every rank has just these rows, in their order. They are reduced in place, on the context's stream, and the result
// has the memory of s.
//
// A wrong tensor or list is an error of this rank alone. The rank then takes no part, and the others hear nothing of it.
// c10d: _allreduce_sparse, _set_sparse_metadata.
func AllReduceAt(ctx context.Context, g *pg.Group, s Tensor, rows []int64, op colligo.ReduceOp) (Tensor, error) {
	out, err := sumAt(g, &s, rows, op)
	if err == nil {
		err = pg.AllReduceAs(ctx, g, pg.OpAllReduceSparse, out.Values, op)
	}
	return word(out, err)
}

// sumAt brings the rows of this rank to the agreed ones.
func sumAt(g *pg.Group, s *Tensor, rows []int64, op colligo.ReduceOp) (Tensor, error) {
	if !g.IsMember() {
		return Tensor{}, pg.ErrNotMember
	}
	if err := errors.Join(s.checkAt(rows, op), inRange(rows, s.Rows)); err != nil {
		return Tensor{}, err
	}
	for i := 1; i < len(rows); i++ {
		if rows[i] <= rows[i-1] {
			return Tensor{}, fmt.Errorf("row %d comes after row %d in the list of rows", rows[i], rows[i-1])
		}
	}
	if s.Values.Device().Kind != colligo.CPU {
		return Tensor{s.Rows, slices.Clone(rows), s.Values}, nil
	}
	out, err := s.shaped(slices.Clone(rows))
	if err == nil {
		err = sumRows(&out, s.Indices, s.Values.CPUBytes())
	}
	return out, err
}

// absent stands in the place of a number of rows if the rank's tensor is wrong.
const absent = -1

// sizes exchanges how many rows the ranks have, and checks that the rest is alike.
func sizes(ctx context.Context, g *pg.Group, s *Tensor, bad error) ([]int, error) {
	limit, _ := pg.ObjectsOf(g)
	own := []int64{absent, 0, 0, limit}
	if bad == nil {
		own[0], own[1], own[2] = int64(len(s.Indices)), int64(s.Rows), int64(s.width())
	}
	all := make([]int64, len(own)*g.Size())
	if err := g.AllGatherIntoTensor(ctx, colligo.Of(all), colligo.Of(own)); err != nil || bad != nil {
		if bad != nil {
			err = bad
		}
		return nil, err
	}
	counts := make([]int, g.Size())
	for r := range counts { // the lowest of all ranks, so that none goes on where another cannot
		limit = min(limit, all[len(own)*r+3])
	}
	row := 8 + own[2]*int64(s.Values.DType().Size())
	for r := range counts {
		theirs := all[len(own)*r:]
		n, rows, width := theirs[0], theirs[1], theirs[2]
		switch {
		case n == absent:
			return nil, fmt.Errorf("the tensor of rank %d is wrong", r)
		case rows != own[1] || width != own[2]:
			return nil, &mismatch{fmt.Errorf("rank %d has a tensor of %d rows of %d elements, this rank one of %d rows of %d", r,
				rows, width, own[1], own[2])}
		case n < 0 || n > limit/row:
			return nil, fmt.Errorf("rank %d announces %d rows of %d elements; MaxObject is %s", r, n, width, colligo.FormatBytes(limit))
		}
		limit -= n * row
		counts[r] = int(n)
	}
	return counts, nil
}

// mismatch is an error of ranks that differ.
type mismatch struct{ error }

// Unwrap returns the sentinel by which callers branch.
func (*mismatch) Unwrap() error { return colligo.ErrMismatch }

// inParts cuts a tensor into counts of rows.
func inParts(t colligo.Tensor, counts []int, width int) []colligo.Tensor {
	parts, at := make([]colligo.Tensor, len(counts)), 0
	for i, n := range counts {
		parts[i] = t.Slice(at, at+n*width)
		at += n * width
	}
	return parts
}

// shaped returns a tensor of zeros like s with other rows.
func (s *Tensor) shaped(rows []int64) (Tensor, error) {
	d, shape := s.Values.DType(), slices.Clone(s.Values.Shape())
	if w := s.width() * d.Size(); w > 0 && len(rows) > int(^uint(0)>>1)/w {
		return Tensor{}, fmt.Errorf("%d rows of %d bytes", len(rows), w)
	}
	shape[0] = len(rows)
	return Tensor{s.Rows, rows, colligo.Bytes(make([]byte, len(rows)*s.width()*d.Size()), d, shape...)}, nil
}

// sumRows adds rows of zeros and the given ones, in their order. The rows of the sum ascend.
func sumRows(sum *Tensor, indices []int64, values []byte) error {
	k, err := kernels.Lookup(sum.Values.DType(), colligo.KindSum)
	if err != nil {
		return err
	}
	dst, n := sum.Values.CPUBytes(), sum.width()*sum.Values.DType().Size()
	begun := make([]bool, len(sum.Indices))
	for i, x := range indices {
		at, ok := slices.BinarySearch(sum.Indices, x)
		if !ok {
			return fmt.Errorf("row %d is not in the list of rows", x)
		}
		to, from := dst[at*n:(at+1)*n], values[i*n:(i+1)*n]
		if begun[at] {
			k.Reduce(to, to, from)
		} else {
			copy(to, from)
			begun[at] = true
		}
	}
	return nil
}
