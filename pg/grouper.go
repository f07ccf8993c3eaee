package pg

import (
	"context"
	"errors"
	"time"

	"github.com/colligo-go/colligo/pg/backend"
)

// onDeviceAll gives the calls of a block to the backend of their device, with no other between them.
func (g *Group) onDeviceAll(ctx context.Context, rs []request, async bool) (backend.Pending, error) {
	g.order.Lock()
	defer g.order.Unlock()
	b, err := g.openedFor(ctx, &rs[0])
	if err != nil {
		return nil, err
	}
	all, grouped := b.(backend.Grouper)
	if grouped {
		if err := all.Begin(ctx, len(rs), async); err != nil {
			return nil, g.blame(&rs[0], 0, err)
		}
	}
	held := grouped && async // the others are followed as ever
	if held {
		g.ledger.devices.hold()
	}
	var each pendings
	first, called := uint64(0), time.Now()
	for i := range rs {
		seq, p, err := g.giveNext(ctx, b, &rs[i], async)
		if err != nil {
			if held {
				defer g.release(nil)
			}
			if grouped {
				_, late := all.End(ctx)
				err = errors.Join(err, late)
			}
			return nil, g.blame(&rs[i], seq, err)
		}
		if i == 0 {
			first = seq
		}
		each = append(each, p)
	}
	if !grouped {
		return each, nil
	}
	p, err := all.End(ctx)
	if err != nil {
		err = g.blame(&rs[0], first, err)
	} else if p != nil {
		g.watchDevice(ctx, &rs[0], first, p, called)
	}
	if held {
		g.release(p)
	}
	return p, err
}

// giveNext is give with the next sequence number.
func (g *Group) giveNext(ctx context.Context, b backend.Backend, r *request, async bool) (uint64, backend.Pending, error) {
	seq, err := g.number(ctx, r)
	if err != nil {
		return 0, nil, err
	}
	p, err := g.give(ctx, b, r, seq, async)
	return seq, p, err
}

// blame fails the group with what a backend could not do.
func (g *Group) blame(r *request, seq uint64, err error) error {
	err = g.explain(r, seq, err, false)
	g.fail(err, true)
	return err
}

// pendings is the operations of a block that were launched one by one.
type pendings []backend.Pending

// Wait implements backend.Pending.
func (ps pendings) Wait(ctx context.Context) error {
	return ps.each(func(p backend.Pending) error { return p.Wait(ctx) })
}

// Synchronize implements backend.Pending.
func (ps pendings) Synchronize(ctx context.Context) error {
	return ps.each(func(p backend.Pending) error { return p.Synchronize(ctx) })
}

func (ps pendings) each(f func(backend.Pending) error) error {
	for _, p := range ps {
		if err := f(p); err != nil {
			return err
		}
	}
	return nil
}

// Done implements backend.Pending.
func (ps pendings) Done() bool {
	for _, p := range ps {
		if !p.Done() {
			return false
		}
	}
	return true
}
