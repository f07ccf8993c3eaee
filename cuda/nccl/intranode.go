package nccl

import (
	"context"
	"errors"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// intraNodeBytes is the longest tensor that the fast path takes, and intraNodeRanks the largest group. c10d's IntraNodeComm has the same.
const (
	intraNodeBytes = 10 << 20
	intraNodeRanks = 8
)

// intraNode is NCCL's backend with a fast path within a host: the backend between GPUs that reach each other's memory carries short sums.
//
// Invariants:
//
//  1. Which backend carries a call follows from arguments that are the same on all ranks.
//  2. A collective begins on a stream after the asynchronous one before it, whichever backend has carried that.
type intraNode struct {
	*ncclBackend
	fast   backend.Grouper
	counts backend.Tracker // the fast backend's

	mu      sync.Mutex // held while a call is given
	inBlock bool
	last    backend.Pending // of the last asynchronous collective
	by      int             // of the last collective

	counting sync.Mutex
	shares   [streamorder.NumQueues]streamorder.Shares
	carried  [2]uint64 // collectives
}

// The two backends.
const (
	byNCCL = iota
	byPeer
)

var (
	_ backend.Grouper  = (*intraNode)(nil)
	_ backend.Tracker  = (*intraNode)(nil)
	_ backend.Reader   = (*intraNode)(nil)
	_ backend.Splitter = (*intraNode)(nil)
	_ backend.Stager   = (*intraNode)(nil)
	_ backend.Shared   = (*intraNode)(nil)
)

// withIntraNode returns the backend with its fast path if that is asked for and there is one. All ranks call it together.
func (b *ncclBackend) withIntraNode(ctx context.Context) (backend.Backend, error) {
	if !b.options.IntraNode && !intraNodeVariable() || b.torch != nil || b.size < 2 || b.size > intraNodeRanks {
		return b, nil
	}
	open := backend.Open(colligo.CUDA, backend.Native)
	if open == nil {
		b.say("the program has no backend " + backend.Native)
		return b, nil
	}
	fast, err := open(backend.Direct(ctx), b.group, b.device.Place())
	if errors.Is(err, backend.ErrApart) {
		b.say(err.Error())
		return b, nil
	}
	if err != nil {
		b.Abort(err)
		return nil, errors.Join(err, b.Close())
	}
	grouper, groups := fast.(backend.Grouper)
	tracker, tracks := fast.(backend.Tracker)
	if !groups || !tracks {
		b.say("the backend " + backend.Native + " takes no blocks")
		return b, fast.Close()
	}
	return &intraNode{ncclBackend: b, fast: grouper, counts: tracker}, nil
}

// say tells once why there is no fast path.
func (b *ncclBackend) say(why string) {
	if b.rank == 0 {
		b.group.Log().Warn("NCCL carries short sums within the host, too: "+why, "group", b.group.Name(), "rank", b.rank)
	}
}

// carrier returns which backend carries a call.
func (x *intraNode) carrier(c *backend.Call) int {
	if !x.inBlock && c.Coll == plan.AllReduce && c.Op.Kind() == colligo.KindSum && c.Count*c.DType.Size() <= intraNodeBytes {
		return byPeer
	}
	return byNCCL
}

// Run implements backend.Backend.
func (x *intraNode) Run(ctx context.Context, c *backend.Call) (backend.Pending, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if c.Coll == plan.Barrier && !x.inBlock {
		return x.barrier(ctx, c)
	}
	by, q := x.carrier(c), streamorder.QueueOf(c.Coll)
	if err := x.follow(ctx, by, q); err != nil {
		return nil, err
	}
	var to backend.Backend = x.ncclBackend
	if by == byPeer {
		to = x.fast
	}
	p, err := to.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	x.counting.Lock()
	x.shares[q].Add(by, 1)
	if q == streamorder.Collectives {
		x.carried[by]++
	}
	x.counting.Unlock()
	if q == streamorder.Collectives {
		if x.by = by; p != nil {
			x.last = p
		}
	}
	return p, nil
}

// follow has the caller's stream wait for the last asynchronous collective if another backend has that (invariant 2). A graph waits for
// nothing outside itself.
func (x *intraNode) follow(ctx context.Context, by int, q streamorder.Queue) error {
	if by == x.by || x.last == nil || q != streamorder.Collectives {
		return nil
	}
	captured := false
	err := streamorder.OnDevice(x.device, func(t cuda.Thread) (err error) {
		captured, _, err = streamorder.Capture(t, streamorder.Of(ctx))
		return err
	})
	if err != nil || captured {
		return err
	}
	return x.last.Wait(ctx)
}

// barrier gives a barrier to both backends: it is done when everything is that was given before.
func (x *intraNode) barrier(ctx context.Context, c *backend.Call) (backend.Pending, error) {
	first, err := x.ncclBackend.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	second, err := x.fast.Run(ctx, c)
	if err != nil {
		return nil, err
	}
	x.counting.Lock()
	defer x.counting.Unlock()
	x.shares[streamorder.Collectives].AddToBoth(1)
	return streamorder.Several{first, second}, nil
}

// Begin implements backend.Grouper. NCCL carries blocks.
func (x *intraNode) Begin(ctx context.Context, n int, async bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.follow(ctx, byNCCL, streamorder.Collectives); err != nil {
		return err
	}
	x.inBlock = true
	return x.ncclBackend.Begin(ctx, n, async)
}

// End implements backend.Grouper.
func (x *intraNode) End(ctx context.Context) (backend.Pending, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.inBlock = false
	p, err := x.ncclBackend.End(ctx)
	if p != nil {
		x.last, x.by = p, byNCCL
	}
	return p, err
}

// Finished implements backend.Tracker.
func (x *intraNode) Finished(c plan.Coll) uint64 {
	done := [2]uint64{byNCCL: x.ncclBackend.Finished(c), byPeer: x.counts.Finished(c)}
	x.counting.Lock()
	defer x.counting.Unlock()
	return x.shares[streamorder.QueueOf(c)].Finished(done)
}

// Carried implements backend.Shared.
func (x *intraNode) Carried() map[string]uint64 {
	x.counting.Lock()
	defer x.counting.Unlock()
	return map[string]uint64{backend.NCCL: x.carried[byNCCL], backend.Native: x.carried[byPeer]}
}

// Abort implements backend.Backend.
func (x *intraNode) Abort(cause error) {
	x.ncclBackend.Abort(cause)
	x.fast.Abort(cause)
}

// Close implements backend.Backend.
func (x *intraNode) Close() error {
	return streamorder.Brief(errors.Join(x.ncclBackend.Close(), x.fast.Close()))
}
