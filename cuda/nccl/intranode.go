package nccl

import (
	"context"
	"errors"

	"github.com/colligo-go/colligo"
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
// Which backend carries a call follows from arguments that are the same on all ranks.
type intraNode struct {
	streamorder.Pair
	nccl    *ncclBackend
	inBlock bool // under the pair's lock
}

// The two backends.
const (
	byNCCL = iota
	byPeer
)

var (
	_ backend.Grouper   = (*intraNode)(nil)
	_ backend.Tracker   = (*intraNode)(nil)
	_ backend.Reader    = (*intraNode)(nil)
	_ backend.Selective = (*intraNode)(nil)
	_ backend.Splitter  = (*intraNode)(nil)
	_ backend.Stager    = (*intraNode)(nil)
	_ backend.Shared    = (*intraNode)(nil)

	_ backend.Communicating = (*intraNode)(nil)
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
	partner, ok := fast.(streamorder.Partner)
	if !ok {
		b.say("the backend " + backend.Native + " takes no blocks")
		return b, fast.Close()
	}
	return &intraNode{Pair: streamorder.MakePair(b.device, b, partner), nccl: b}, nil
}

// say tells once why there is no fast path.
func (b *ncclBackend) say(why string) {
	if b.rank == 0 {
		b.group.Log().Warn("NCCL carries short sums within the host, too: "+why, "group", b.group.Name(), "rank", b.rank)
	}
}

// carrier returns which backend carries a call.
func (x *intraNode) carrier(r backend.Reduction) int {
	if !r.InBlock && r.Coll == plan.AllReduce && r.Kind == colligo.KindSum && r.Bytes <= intraNodeBytes {
		return byPeer
	}
	return byNCCL
}

// Run implements backend.Backend.
func (x *intraNode) Run(ctx context.Context, c *backend.Call) (backend.Pending, error) {
	x.Lock()
	defer x.Unlock()
	if c.Coll == plan.Barrier && !x.inBlock {
		return x.Barrier(ctx, c, 1)
	}
	return x.Give(ctx, c, x.carrier(backend.ReductionOf(c, x.inBlock)))
}

// Refuses implements backend.Selective.
func (x *intraNode) Refuses(r backend.Reduction) error {
	if x.carrier(r) == byPeer {
		return nil
	}
	return x.nccl.Refuses(r)
}

// Communicators implements backend.Communicating.
func (x *intraNode) Communicators() map[string]map[string]string { return x.nccl.Communicators() }

// Split implements backend.Splitter.
func (x *intraNode) Split(ctx context.Context, h backend.Host, color, key int) (backend.Backend, error) {
	return x.nccl.Split(ctx, h, color, key)
}

// Begin implements backend.Grouper. NCCL carries blocks.
func (x *intraNode) Begin(ctx context.Context, n int, async bool) error {
	x.Lock()
	defer x.Unlock()
	to, err := x.Turn(ctx, streamorder.Collectives, byNCCL)
	if err != nil {
		return err
	}
	x.inBlock = true
	return to.Begin(ctx, n, async)
}

// End implements backend.Grouper. Its calls are counted already.
func (x *intraNode) End(ctx context.Context) (backend.Pending, error) {
	x.Lock()
	defer x.Unlock()
	x.inBlock = false
	p, err := x.nccl.End(ctx)
	if p != nil {
		x.Took(streamorder.Collectives, byNCCL, 0, p)
	}
	return p, err
}

// Carried implements backend.Shared.
func (x *intraNode) Carried() map[string]uint64 {
	n := x.Pair.Carried()
	return map[string]uint64{backend.NCCL: n[byNCCL], backend.Native: n[byPeer]}
}
