package ddp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// The sizes of buckets where Options leave them zero, in bytes. The first is small so that reducing begins early.
const (
	DefaultFirstBucketBytes = 1 << 20
	DefaultBucketBytes      = 25 << 20
)

// Options say how a reducer works; the same on all ranks, which New makes sure of but for Hook and Memory. The zero value is
// the default.
type Options struct {
	FirstBucketBytes int  // the first bucket of an element type is full when it has so many
	BucketBytes      int  // and later ones when they have so many. c10d: bucket_cap_mb
	BucketView       bool // gradients live in the buckets: nothing is copied, and Reducer.Grad says where they are. c10d: gradient_as_bucket_view
	// FindUnused lets a step do without some gradients. They count as zeros; gradients that no rank had stay as they were.
	// With BucketView they count as what is in the bucket, which the caller clears. It costs one small all-reduce a step.
	// c10d: find_unused_parameters.
	FindUnused bool
	// StaticGraph says that every step uses the same parameters, each as often. The first step counts that, and reduces at its
	// end. Later steps take a gradient at its last use, and wait for no parameter that is not used. c10d: static_graph.
	StaticGraph bool
	// Join lets ranks have different numbers of steps: each calls Reducer.Join after its last. It costs one small all-gather a step.
	// c10d: DistributedDataParallel.join.
	Join bool
	// JoinMean makes the mean that of the ranks that still compute, not of all. c10d: divide_by_initial_world_size=False.
	JoinMean bool
	Buffers  []colligo.Tensor // that Reducer.SyncBuffers sets to one rank's. c10d: broadcast_buffers
	Hook     Hook             // nil takes AllReduce
	Memory   Memory           // nil takes the CPU's
}

// Reducer reduces the gradients of a set of parameters, step after step.
type Reducer struct {
	g       *pg.Group
	params  []Parameter
	o       Options
	buckets []*Bucket
	at      []place                // by parameter
	ready   []bool                 // by parameter
	order   []int                  // in which the gradients of this step became ready
	next    int                    // first bucket that is not being reduced
	stepped bool                   // one step is over
	zeros   map[int]colligo.Tensor // by parameter that was missing once
	left    []*Future              // reductions of a lost step that may be under way
	begun   bool                   // something of this step has been done
	steps   int                    // that are over
	uses    uses
	joining joining
	sparse  sparseGrads
}

// New makes a reducer for parameters that must be the same on all ranks, in the same order. Gradients are expected from the
// last to the first. Valid Values are set to rank 0's. Every rank calls it. c10d: DistributedDataParallel's constructor.
func New(ctx context.Context, g *pg.Group, params []Parameter, o Options) (*Reducer, error) {
	r := &Reducer{g: g, params: slices.Clone(params), o: o, zeros: map[int]colligo.Tensor{}}
	if r.o.FirstBucketBytes <= 0 {
		r.o.FirstBucketBytes = DefaultFirstBucketBytes
	}
	if r.o.BucketBytes <= 0 {
		r.o.BucketBytes = DefaultBucketBytes
	}
	if r.o.Hook == nil {
		r.o.Hook = AllReduce
	}
	if r.o.Memory == nil {
		r.o.Memory = host{}
	}
	refused := checkOwn(r.params, &r.o)
	if err := errors.Join(refused, r.meet(ctx, refused)); err != nil {
		return nil, fmt.Errorf("ddp: rank %d: %w", g.Rank(), err)
	}
	return r, nil
}

// meet compares parameters and options with the other ranks', hands out the values, and makes the buckets. A rank whose own
// parameters are refused takes part, so that the others are not left waiting.
func (r *Reducer) meet(ctx context.Context, refused error) error {
	if err := agree(ctx, r.g, r.params, &r.o, refused); err != nil {
		return err
	}
	if err := r.values(ctx, 0); err != nil {
		return err
	}
	var expected []int
	for i := len(r.params) - 1; i >= 0; i-- {
		if r.params[i].SparseRows == 0 {
			expected = append(expected, i)
		}
	}
	return r.fill(expected)
}

// fill makes the buckets for gradients that come in an order. If it cannot, the reducer keeps the buckets that it has.
func (r *Reducer) fill(order []int) error {
	var buckets []*Bucket
	at := make([]place, len(r.params))
	for _, members := range assign(r.params, order, r.o.FirstBucketBytes, r.o.BucketBytes) {
		b, err := newBucket(r.o.Memory, r.params, members)
		if err != nil {
			return fmt.Errorf("bucket %d: %w", len(buckets), err)
		}
		b.Index = len(buckets)
		for i, p := range members {
			at[p] = place{b.Index, i}
		}
		buckets = append(buckets, b)
	}
	if len(buckets) > 0 {
		buckets[len(buckets)-1].Last = true
	}
	r.buckets, r.at, r.ready = buckets, at, make([]bool, len(r.params))
	return nil
}

// Buckets returns the buckets in the order of their reductions. The buckets of a reducer without BucketView change once,
// after the first step, to follow the order in which gradients became ready.
func (r *Reducer) Buckets() []*Bucket { return slices.Clone(r.buckets) }

// Grad returns the place of a parameter's gradient: a view of its bucket with BucketView, else the parameter's own.
func (r *Reducer) Grad(i int) colligo.Tensor {
	if !r.o.BucketView {
		return r.params[i].Grad
	}
	at := r.at[i]
	return r.buckets[at.bucket].Grads[at.index]
}

// Ready says that a parameter's gradient is there, once in a step. It starts the reduction of every bucket that is full and
// whose turn it is. On an error the step is lost.
func (r *Reducer) Ready(ctx context.Context, i int) error {
	if i < 0 || i >= len(r.params) {
		return fmt.Errorf("ddp: rank %d: parameter %d of %d", r.g.Rank(), i, len(r.params))
	}
	if r.params[i].SparseRows > 0 {
		return fmt.Errorf("ddp: rank %d: the gradient of %s is sparse: call ReadySparse", r.g.Rank(), r.params[i].Name)
	}
	if r.ready[i] && !r.recording() {
		return r.twice(i)
	}
	if err := r.begin(ctx, computes); err != nil {
		return fmt.Errorf("ddp: rank %d: %w", r.g.Rank(), err)
	}
	if r.o.StaticGraph && !r.uses.last(r, i) {
		return nil
	}
	if err := r.put(ctx, i); err != nil {
		return fmt.Errorf("ddp: rank %d: gradient of %s: %w", r.g.Rank(), r.params[i].Name, err)
	}
	return nil
}

func (r *Reducer) twice(i int) error {
	if r.o.StaticGraph {
		return fmt.Errorf("ddp: rank %d: the gradient of %s was ready more often than in the first step, which had %d uses of it: the graph is not static",
			r.g.Rank(), r.params[i].Name, r.uses.first[i])
	}
	return fmt.Errorf("ddp: rank %d: the gradient of %s was ready twice in one step: is it shared by two uses, or was the step not finished?",
		r.g.Rank(), r.params[i].Name)
}

// begin begins a step with the first call that belongs to it. The rank computes, or it has joined and follows the others.
func (r *Reducer) begin(ctx context.Context, as state) error {
	if r.begun {
		return nil
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	if r.o.Join {
		if err := r.joining.announce(ctx, r.g, as); err != nil {
			return err
		}
		for _, b := range r.buckets {
			b.ranks = r.joining.ranks(&r.o)
		}
	}
	r.begun = true
	if r.o.StaticGraph && !r.recording() {
		return r.fillIn(ctx, r.uses.unused(r))
	}
	return nil
}

// put brings a gradient to its bucket.
func (r *Reducer) put(ctx context.Context, i int) error {
	if err := r.settle(ctx); err != nil {
		return err
	}
	at := r.at[i]
	b := r.buckets[at.bucket]
	if !r.o.BucketView {
		if err := r.o.Memory.Copy(ctx, b.Grads[at.index], r.params[i].Grad); err != nil {
			return err
		}
	}
	r.ready[i], r.order = true, append(r.order, i)
	b.pending--
	return r.launch(ctx)
}

// launch starts the reduction of the full buckets whose turn it is.
func (r *Reducer) launch(ctx context.Context) error {
	for ; r.next < len(r.buckets) && r.buckets[r.next].pending == 0; r.next++ {
		b := r.buckets[r.next]
		f, err := r.o.Hook(ctx, r.g, b)
		if err != nil {
			return fmt.Errorf("bucket %d: %w", b.Index, err)
		}
		if f == nil {
			return fmt.Errorf("bucket %d: the hook returned no future", b.Index)
		}
		b.result = f
	}
	return nil
}

// Missing returns the parameters whose gradients of this step are not there, without those that a static graph does not use.
func (r *Reducer) Missing() []int {
	var missing []int
	for i, ready := range r.ready {
		if !ready && !(r.o.StaticGraph && !r.recording() && r.uses.first[i] == 0) {
			missing = append(missing, i)
		}
	}
	return missing
}

// names lists parameters for a message.
func (r *Reducer) names(params []int) string {
	const most = 8
	var s []string
	for _, i := range params[:min(len(params), most)] {
		s = append(s, r.params[i].Name)
	}
	if len(params) > most {
		s = append(s, fmt.Sprintf("and %d more", len(params)-most))
	}
	return strings.Join(s, ", ")
}
