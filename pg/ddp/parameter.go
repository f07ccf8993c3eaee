package ddp

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// Parameter is a tensor of a model whose gradient is reduced.
type Parameter struct {
	Name string // for messages
	// Grad is where the caller puts the gradient and finds the reduced one. With Options.BucketView only its element type,
	// shape, strides and device count; the gradient's place is Reducer.Grad.
	Grad colligo.Tensor
	// SparseRows, if above 0, says that the gradient is a sparse tensor of so many rows. Grad then is one row, whose type, shape and
	// device count; Reducer.ReadySparse takes the gradient, and Reducer.Sparse returns the reduced one.
	SparseRows int
	// Value, if valid, is set to rank 0's when the reducer is made.
	Value colligo.Tensor
}

// String names the parameter and says what it is, such as "fc1.weight (float32 [10 2])".
func (p *Parameter) String() string {
	return fmt.Sprintf("%s (%v %v)", p.Name, p.Grad.DType(), p.Grad.Shape())
}

// layout is a number that is equal for parameters that can be reduced together. It has type, shape and strides of the
// gradient, and type and shape of the value, if there is one.
func (p *Parameter) layout() uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, p.Grad.DType(), p.Grad.Shape(), p.Grad.Strides(), p.Grad.Device().Kind, p.SparseRows)
	if v := p.Value; v.Valid() {
		fmt.Fprint(h, v.DType(), v.Shape(), v.Device().Kind)
	}
	return h.Sum64()
}

// checkOwn refuses parameters that cannot be reduced, and options that do not go together.
func checkOwn(params []Parameter, o *Options) error {
	if o.StaticGraph && o.Join {
		return fmt.Errorf("StaticGraph and Join: a rank that has joined uses no parameters")
	}
	if len(params) == 0 {
		return fmt.Errorf("no parameters")
	}
	for i := range params {
		p := &params[i]
		if p.Name == "" {
			p.Name = fmt.Sprintf("parameter %d", i)
		}
		d := p.Grad.DType()
		switch {
		case !p.Grad.Valid():
			return fmt.Errorf("%s has no gradient tensor: was the model's shape not yet known?", p.Name)
		case !d.Float() && !d.Complex() || d.Size() == 1:
			return fmt.Errorf("%v: gradients of this type have no mean", p)
		case p.Grad.Device().Kind != params[0].Grad.Device().Kind:
			return fmt.Errorf("%v is on %v, %v is on %v: all must be on one kind of device", p, p.Grad.Device(), &params[0], params[0].Grad.Device())
		}
	}
	return nil
}

// agreeOn compares how many parameters there are, and what decides which collectives a step has.
func agreeOn(ctx context.Context, g *pg.Group, params int, o *Options, refused error) error {
	names := []string{"parameters", "FirstBucketBytes", "BucketBytes", "BucketView", "FindUnused", "StaticGraph", "Join", "JoinMean", "Buffers"}
	own := []int64{int64(params), int64(o.FirstBucketBytes), int64(o.BucketBytes), flag(o.BucketView), flag(o.FindUnused),
		flag(o.StaticGraph), flag(o.Join), flag(o.JoinMean), int64(len(o.Buffers))}
	if refused != nil {
		own[0] = -1
	}
	all := make([]int64, len(own)*g.Size())
	if err := g.AllGatherIntoTensor(ctx, colligo.Of(all), colligo.Of(own)); err != nil {
		return err
	}
	for rank := range g.Size() {
		theirs := all[rank*len(own):][:len(own)]
		if theirs[0] < 0 {
			return fmt.Errorf("the parameters of rank %d were refused there", rank)
		}
		for i, n := range theirs {
			if n != all[i] {
				return fmt.Errorf("rank 0 has %d %s, rank %d has %d", all[i], names[i], rank, n)
			}
		}
	}
	return nil
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// agree makes sure that all ranks have the same parameters and options as rank 0. Every rank learns of any difference.
func agree(ctx context.Context, g *pg.Group, params []Parameter, o *Options, refused error) error {
	if err := agreeOn(ctx, g, len(params), o, refused); err != nil {
		return err
	}
	mine := make([]int64, len(params))
	for i := range params {
		mine[i] = int64(params[i].layout())
	}
	all := make([]int64, len(params)*g.Size())
	if err := g.AllGatherIntoTensor(ctx, colligo.Of(all), colligo.Of(mine)); err != nil {
		return err
	}
	for rank := range g.Size() {
		for i := range params {
			if all[rank*len(params)+i] != all[i] {
				return fmt.Errorf("on rank %d type, shape or strides of %s are not those of rank 0; on rank %d it is %v with strides %v, value %v",
					rank, params[i].Name, g.Rank(), &params[i], params[i].Grad.Strides(), params[i].Value)
			}
		}
	}
	return nil
}
