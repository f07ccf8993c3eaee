package streamorder

import (
	"context"
	"errors"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
)

// Pair has two backends share the calls of one group on one device. The backend that embeds it decides which of the two carries a call,
// and gives it by Give or Turn. All ranks decide alike.
//
// Invariants:
//
//  1. A collective begins on a stream after the asynchronous one before it, whichever of the two has carried that.
//  2. Finished counts the calls in the order in which they were given, whichever of the two is ahead.
type Pair struct {
	// Tensors is what the first backend alone does with tensors.
	Tensors
	sync.Mutex // held while a call is given

	device *cuda.Device
	of     [2]Partner
	last   backend.Pending // of the last asynchronous collective
	by     int             // of the last collective

	counting sync.Mutex
	shares   [NumQueues]Shares
	carried  [2]uint64 // collectives
}

// Partner is one of the two backends of a Pair.
type Partner interface {
	backend.Grouper
	Finished(c plan.Coll) uint64 // as of backend.Tracker
}

// Tensors is what a pair needs of a backend for tensors of the device: to read them on the host, and to copy them.
type Tensors interface {
	Read(ctx context.Context, t colligo.Tensor, see func(piece []byte) bool) error
	Stage(ctx context.Context, b []byte, d colligo.DType) (colligo.Tensor, error)
	Unstage(ctx context.Context, t colligo.Tensor, b []byte) error
}

// MakePair makes a pair of a device's backends, which are number 0 and number 1 from here on.
func MakePair(d *cuda.Device, first interface {
	Partner
	Tensors
}, second Partner) Pair {
	return Pair{Tensors: first, device: d, of: [2]Partner{first, second}}
}

// Give has a backend carry out a call. The caller holds the lock.
func (x *Pair) Give(ctx context.Context, c *backend.Call, by int) (backend.Pending, error) {
	q := QueueOf(c.Coll)
	to, err := x.Turn(ctx, q, by)
	if err != nil {
		return nil, err
	}
	p, err := to.Run(ctx, c)
	if err == nil {
		x.Took(q, by, 1, p)
	}
	return p, err
}

// Turn returns a backend that is to carry calls of a queue. The caller's stream waits for the last asynchronous collective if the other
// one has that (invariant 1). A graph waits for nothing outside itself. The caller holds the lock.
func (x *Pair) Turn(ctx context.Context, q Queue, by int) (backend.Grouper, error) {
	to := x.of[by]
	if by == x.by || x.last == nil || q != Collectives {
		return to, nil
	}
	captured := false
	err := OnDevice(x.device, func(t cuda.Thread) (err error) {
		captured, _, err = Capture(t, Of(ctx))
		return err
	})
	if err != nil || captured {
		return to, err
	}
	return to, x.last.Wait(ctx)
}

// Took notes n calls that a backend has taken. Their Pending may be nil. The caller holds the lock.
func (x *Pair) Took(q Queue, by int, n uint64, p backend.Pending) {
	x.counting.Lock()
	if n > 0 {
		x.shares[q].Add(by, n)
	}
	if q == Collectives {
		x.carried[by] += n
	}
	x.counting.Unlock()
	if q != Collectives {
		return
	}
	if x.by = by; p != nil {
		x.last = p
	}
}

// Barrier gives a barrier to both backends, which counts as n calls. It is done when everything is that was given before. The caller
// holds the lock.
func (x *Pair) Barrier(ctx context.Context, c *backend.Call, n uint64) (backend.Pending, error) {
	var both Several
	for _, b := range x.of {
		p, err := b.Run(ctx, c)
		if err != nil {
			return nil, err
		}
		both = append(both, p)
	}
	x.counting.Lock()
	defer x.counting.Unlock()
	x.shares[Collectives].AddToBoth(n)
	return both, nil
}

// Finished implements backend.Tracker.
func (x *Pair) Finished(c plan.Coll) uint64 {
	done := [2]uint64{x.of[0].Finished(c), x.of[1].Finished(c)}
	x.counting.Lock()
	defer x.counting.Unlock()
	return x.shares[QueueOf(c)].Finished(done)
}

// Carried returns how many collectives each of the two was given, barriers left out.
func (x *Pair) Carried() [2]uint64 {
	x.counting.Lock()
	defer x.counting.Unlock()
	return x.carried
}

// Abort implements backend.Backend.
func (x *Pair) Abort(cause error) {
	for _, b := range x.of {
		b.Abort(cause)
	}
}

// Close implements backend.Backend.
func (x *Pair) Close() error { return Brief(errors.Join(x.of[0].Close(), x.of[1].Close())) }
