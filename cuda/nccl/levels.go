package nccl

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/devmem"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/internal/tenants"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// levels carries all-reduces of n bytes among h hosts of l ranks each, on one stream:
//
//  1. The ranks of each host reduce-scatter the tensor by the backend "peer": n(l-1)/l bytes within the host.
//  2. The ranks of one number on all hosts are a rail. They all-reduce their part by NCCL, 2n/l (h-1)/h bytes over the network.
//  3. The ranks of each host gather the parts by "peer", n(l-1)/l bytes again.
//
// The order of summation is first that of the host's ranks, then NCCL's. Each part is reduced on one rail, so all ranks have the same
// bits. A factor, also that of an average, multiplies the inputs in step 1.
//
// The parts are even, in units of 16 bytes, but for the last ones. Ranks past a short tensor's end have an empty part.
type levels struct {
	tenant *tenants.Tenant // the whole group's
	local  backend.Backend // of the ranks of this host
	group  *hostGroup
	rail   *Comm
	rules  []Rule // that fit the hosts

	hosts, size, index int // how many hosts, ranks of each, and this rank's number there

	// Under the order's lock.
	call   backend.Call
	counts []int

	carried, flat atomic.Uint64 // collectives in two levels, and those that NCCL has carried alone
}

// takes reports whether a call goes in two levels. The answer follows from what is the same on all ranks.
func (l *levels) takes(r backend.Reduction) bool {
	if r.InBlock || r.Coll != plan.AllReduce || r.Bytes == 0 || algorithmFor(l.rules, r.Bytes) != TwoLevel {
		return false
	}
	return l.rail.library.reduces(r.DType, railKind(r.Kind)) && (r.Kind != colligo.KindAvg || l.weight(r.DType) != 1)
}

// reduces reports whether the library has a reduction of an element type.
func (l *Library) reduces(d colligo.DType, k colligo.OpKind) bool {
	_, _, _, err := l.Reduced(d, k)
	return err == nil
}

// railKind returns the reduction between hosts. Where step 1 multiplies the inputs, there is only a sum left.
func railKind(k colligo.OpKind) colligo.OpKind {
	if k == colligo.KindAvg || k == colligo.KindPremulSum {
		return colligo.KindSum
	}
	return k
}

// weight returns by what an average multiplies its inputs, 1 if it divides the sum instead, as that of whole numbers does.
func (l *levels) weight(d colligo.DType) float64 {
	k, err := kernels.Lookup(d, colligo.KindAvg)
	if err != nil || ones[d.Real()] == nil {
		return 1
	}
	return k.Weight(l.hosts * l.size)
}

// allReduce enqueues a call on a stream.
func (l *levels) allReduce(ctx context.Context, c *backend.Call, s cuda.Stream) error {
	if streamorder.Of(ctx) != s {
		ctx = streamorder.OnStream(ctx, s)
	}
	r, err := l.rail.Reduction(c.DType, railKind(c.Op.Kind()))
	if err != nil {
		return err
	}
	op := c.Op
	if op.Kind() == colligo.KindAvg {
		op = colligo.PremulSum(l.weight(c.DType))
	}
	from, n := l.divide(c)
	own := sub(c.Out, from, n)
	l.call.Coll, l.call.Op, l.call.In, l.call.Out = plan.ReduceScatter, op, c.In, own
	if err := l.within(ctx); err != nil { // (1)
		return err
	}
	if n > 0 { // (2); the rail's parts are of one length
		if err := l.rail.AllReduce(devmem.Address(own), devmem.Address(own), n, r, s); err != nil {
			return fmt.Errorf("between hosts: %w", err)
		}
	}
	l.call.Coll, l.call.Op, l.call.In, l.call.Out = plan.AllGather, colligo.ReduceOp{}, own, c.Out
	if err := l.within(ctx); err != nil { // (3)
		return err
	}
	l.carried.Add(1)
	return nil
}

// within has the group of the host enqueue l.call. That group may have to load kernels, and to be alone for it.
func (l *levels) within(ctx context.Context) error {
	return l.tenant.Lend(func() error {
		if _, err := l.local.Run(ctx, &l.call); err != nil {
			return fmt.Errorf("within the host: %w", err)
		}
		return nil
	})
}

// divide lays out the parts of a call's tensor in l.call. It returns where this rank's part begins, and its length.
func (l *levels) divide(c *backend.Call) (from, n int) {
	unit := max(16/c.DType.Size(), 1)
	units := (c.Count + unit - 1) / unit
	part := (units + l.size - 1) / l.size * unit
	l.call = backend.Call{DType: c.DType, Count: part, Seq: c.Seq}
	from = min(l.index*part, c.Count)
	n = min(part, c.Count-from)
	if part*l.size == c.Count {
		return from, n
	}
	for i := range l.counts {
		at := min(i*part, c.Count)
		l.counts[i] = min(part, c.Count-at)
	}
	l.call.Counts = l.counts
	return from, n
}

// sub returns n elements of a tensor of the device.
func sub(t colligo.Tensor, from, n int) colligo.Tensor {
	return colligo.OnDevice(t.Device(), t.Addr()+uintptr(from*t.DType().Size()), n, t.DType())
}

// Carried implements backend.Shared. There is one way for all where there are no levels.
func (b *ncclBackend) Carried() map[string]uint64 {
	if b.levels == nil {
		return nil
	}
	return map[string]uint64{TwoLevel: b.levels.carried.Load(), Flat: b.levels.flat.Load()}
}

// abortMoment is how long the library has to mark its communicators as aborted before the steps behind them are let go.
const abortMoment = 100 * time.Millisecond

// abort ends what waits within the host, behind the abort of the communicators. A reduction that ends without its peers would else hand
// what it has to the other hosts. Their operation would end as if nothing had failed. The communicators end only when what is before
// them on the stream has, so abort waits a moment for them, no longer.
func (l *levels) abort(cause error, communicators *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { communicators.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(abortMoment):
	}
	l.local.Abort(cause)
}
