package ddp

import (
	"context"
	"errors"
	"fmt"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// state is what a rank does in a step.
type state = int64

const (
	joined          state = iota // it has no steps left and follows the others
	computes                     // it has a step of its own
	computesBuffers              // which it began with SyncBuffers
)

// joining is what a rank knows of the others' states, of a reducer with Join. The zero value is for others: rank 0 is the root.
type joining struct {
	states []state // in this step, by rank
	root   int     // the lowest rank that computes
	last   int     // the highest rank that computed in the last step that some rank had
	active int
}

// announce tells the other ranks this rank's state in the step that begins, and hears theirs.
func (j *joining) announce(ctx context.Context, g *pg.Group, own state) error {
	j.states = make([]state, g.Size())
	if err := g.AllGatherIntoTensor(ctx, colligo.Of(j.states), colligo.Of([]state{own})); err != nil {
		return fmt.Errorf("which ranks compute: %w", err)
	}
	j.root, j.active = -1, 0
	for rank, s := range j.states {
		if s == joined {
			continue
		}
		if j.root < 0 {
			j.root = rank
		}
		if s != j.states[j.root] {
			return fmt.Errorf("one of ranks %d and %d synchronizes buffers before the step, the other does not: %w", j.root, rank, colligo.ErrMismatch)
		}
		j.last, j.active = rank, j.active+1
	}
	return nil
}

// ranks returns of how many ranks a bucket takes the mean, 0 for all.
func (j *joining) ranks(o *Options) int {
	if !o.JoinMean {
		return 0
	}
	return j.active
}

// Join follows the other ranks' steps with gradients of zero, until every rank has joined. Then it sets the values of all
// parameters to those of the highest rank among the last to compute. A rank calls it when it has no more steps, once, in place of a step. What
// it finds in buckets that are viewed it may lose. c10d: the end of the context of DistributedDataParallel.join.
func (r *Reducer) Join(ctx context.Context) error {
	if !r.o.Join {
		return errors.New("ddp: Join of a reducer without Options.Join")
	}
	for {
		if err := r.begin(ctx, joined); err != nil {
			return fmt.Errorf("ddp: rank %d has joined: %w", r.g.Rank(), err)
		}
		if r.joining.active == 0 {
			break
		}
		err := r.shadow(ctx)
		r.reset()
		if err != nil {
			return fmt.Errorf("ddp: rank %d has joined: %w", r.g.Rank(), err)
		}
	}
	r.reset()
	return r.values(ctx, r.joining.last)
}

// shadow takes part in a step of the others, with zeros.
func (r *Reducer) shadow(ctx context.Context) error {
	if r.joining.states[r.joining.root] == computesBuffers {
		if err := r.g.BroadcastCoalesced(ctx, r.o.Buffers, 0, r.joining.root); err != nil {
			return err
		}
	}
	for _, b := range r.buckets {
		zeros, err := b.room("zeros", b.Buffer.DType(), b.Buffer.Len())
		if err == nil {
			err = r.o.Memory.Copy(ctx, b.Buffer, zeros)
		}
		if err != nil {
			return fmt.Errorf("bucket %d: %w", b.Index, err)
		}
		b.pending = 0
	}
	if err := r.launch(ctx); err != nil {
		return err
	}
	if _, err := r.usedAnywhere(ctx, r.Missing()); err != nil {
		return err
	}
	for _, b := range r.buckets {
		if _, err := b.result.Wait(ctx); err != nil {
			return fmt.Errorf("bucket %d: %w", b.Index, err)
		}
	}
	if err := r.sparse.reduce(ctx, r); err != nil {
		return err
	}
	r.steps++
	return r.follow(ctx)
}

// values sets the parameters' values to a rank's.
func (r *Reducer) values(ctx context.Context, root int) error {
	for i := range r.params {
		if v := r.params[i].Value; v.Valid() {
			if err := r.g.Broadcast(ctx, v, root); err != nil {
				return fmt.Errorf("value of %s: %w", r.params[i].Name, err)
			}
		}
	}
	return nil
}

// SyncBuffers sets Options.Buffers to those of the lowest rank that computes. Every rank that has a step calls it before the
// step, or none does. c10d: what a forward pass does with broadcast_buffers.
func (r *Reducer) SyncBuffers(ctx context.Context) error {
	if r.begun {
		return fmt.Errorf("ddp: rank %d: SyncBuffers in a step that has begun", r.g.Rank())
	}
	err := r.begin(ctx, computesBuffers)
	if err == nil {
		err = r.g.BroadcastCoalesced(ctx, r.o.Buffers, 0, r.joining.root)
	}
	if err != nil {
		return fmt.Errorf("ddp: rank %d: buffers: %w", r.g.Rank(), err)
	}
	return nil
}
