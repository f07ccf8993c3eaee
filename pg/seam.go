package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/store"
)

// seam is a group as its backends see it.
type seam struct {
	g     *Group
	store store.Store
	torch *backend.Torch
}

// newSeam returns the seam of a group. With ranks of PyTorch backends see the part of the store in which theirs meet.
func newSeam(g *Group) *seam {
	s := &seam{g: g, store: g.forming.Store}
	if speaksTorch(g) {
		s.store = rendezvousOf(g).Device(colligo.CUDA.String())
		s.torch = &backend.Torch{Version: g.config.version(), Bound: g.config.Device.Kind != colligo.CPU}
	}
	return s
}

var (
	_ backend.Host = (*seam)(nil)
	_ backend.Dup  = (*duplicate)(nil)
)

// Name implements backend.Host.
func (s *seam) Name() string { return s.g.name }

// Rank implements backend.Host.
func (s *seam) Rank() int { return s.g.rank }

// Size implements backend.Host.
func (s *seam) Size() int { return s.g.size }

// Transport implements backend.Host.
func (s *seam) Transport() string { return s.g.Transport() }

// Timeout implements backend.Host.
func (s *seam) Timeout() time.Duration { return s.g.limits.onDevices() }

// ConnectTimeout implements backend.Host.
func (s *seam) ConnectTimeout() time.Duration { return s.g.config.ConnectTimeout }

// Log implements backend.Host.
func (s *seam) Log() *slog.Logger { return s.g.log }

// Err implements backend.Host.
func (s *seam) Err() error { return s.g.Err() }

// Fail implements backend.Host.
func (s *seam) Fail(err error) {
	var late *backend.Late
	if !errors.As(err, &late) {
		s.g.fail(err, true)
		return
	}
	if o := s.g.devices.watch.Oldest(late.Coll, late.After); o == nil || speaksTorch(s.g) {
		s.g.fail(late.Err, true)
	} else {
		_ = (&events{s.g}).late(o, late.Says)
	}
}

// Count implements backend.Host.
func (s *seam) Count(ctx context.Context, key string, n int64) (int64, error) {
	return s.store.Add(ctx, key, n)
}

// Set implements backend.Host.
func (s *seam) Set(ctx context.Context, key string, value []byte) error {
	return s.store.Set(ctx, key, value)
}

// Get implements backend.Host.
func (s *seam) Get(ctx context.Context, key string) ([]byte, error) {
	limited, cancel := s.g.handler.sound.with(ctx)
	defer cancel()
	value, err := s.store.Get(limited, key)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return nil, context.Cause(limited)
	}
	return value, err
}

// Torch implements backend.Host.
func (s *seam) Torch() *backend.Torch { return s.torch }

// Do implements backend.Host.
func (s *seam) Do(ctx context.Context, c *backend.Call) error {
	o, err := opOf(s.g.call(), c)
	if err != nil {
		return err
	}
	return s.g.run(&op.Own{Context: ctx}, o)
}

// opOf makes o the operation of a call on tensors of the CPU.
func opOf(o *op.Op, c *backend.Call) (*op.Op, error) {
	switch c.Coll {
	case plan.AllReduce:
		return o.AllReduce(c.Out, c.Op), nil
	case plan.Reduce:
		return o.ReduceTo(c.In, c.Root, c.Op), nil
	case plan.Broadcast:
		t := c.Out
		if int(o.Rank) == c.Root {
			t = c.In
		}
		return o.Broadcast(t, c.Root), nil
	case plan.AllGather:
		if c.Outs == nil {
			return o.AllGatherInto(c.Out, c.In), nil
		}
		return o.AllGather(c.Outs, c.In), nil
	case plan.ReduceScatter:
		return o.ReduceScatter(c.Out, c.Ins, c.Op), nil
	case plan.AllToAll:
		return o.AllToAll(c.Outs, c.Ins), nil
	case plan.Gather:
		return o.Gather(c.Outs, c.In, c.Counts, c.Root), nil
	case plan.Scatter:
		return o.Scatter(c.Out, c.Ins, c.Counts, c.Root), nil
	case plan.Barrier:
		return o.Barrier(colligo.Device{}), nil
	case plan.Send:
		return o.Send(c.In, c.Peer, c.Tag), nil
	case plan.Recv:
		return o.Recv(c.Out, c.Peer, c.Tag), nil
	}
	return nil, fmt.Errorf("pg: %v on a backend's behalf", c.Coll)
}

// Dup implements backend.Host.
func (s *seam) Dup(ctx context.Context, limit time.Duration) (backend.Dup, error) {
	return s.Part(ctx, bootstrap.AllRanks(s.g.size), limit)
}

// Part implements backend.Host.
func (s *seam) Part(ctx context.Context, ranks []int, limit time.Duration) (backend.Dup, error) {
	n, err := s.g.dup(ctx, ranks, limit)
	if err != nil {
		return nil, err
	}
	return &duplicate{*newSeam(n)}, nil
}

// duplicate is a group that a backend has for itself.
type duplicate struct{ seam }

// SetTimeout implements backend.Dup.
func (d *duplicate) SetTimeout(limit time.Duration) error { return d.g.SetTimeout(limit) }

// Close implements backend.Dup.
func (d *duplicate) Close() error { return d.g.Close() }
