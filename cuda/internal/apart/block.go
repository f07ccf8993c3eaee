package apart

import (
	"context"
	"errors"

	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/pg/backend"
)

// Begin implements backend.Grouper.
func (b *either) Begin(_ context.Context, _ int, async bool) error {
	b.Lock()
	defer b.Unlock()
	b.block.open, b.block.async = true, async
	return nil
}

// End implements backend.Grouper. A block has a part for each change of the backend. The messages are all in the last part.
func (b *either) End(ctx context.Context) (backend.Pending, error) {
	b.Lock()
	defer b.Unlock()
	x := b.block
	b.block = block{}
	var all streamorder.Several
	for _, p := range b.cut(&x) {
		pending, err := b.give(ctx, &x, p)
		if err != nil {
			return nil, err
		}
		if pending != nil {
			all = append(all, pending)
		}
	}
	return all.One(), nil
}

// part is calls of a block, by their numbers, that one backend carries.
type part struct {
	by    int
	calls []int
}

// cut divides a block into parts.
func (b *either) cut(x *block) (all []part) {
	var messages []int
	for i := range x.calls {
		if streamorder.QueueOf(x.calls[i].Coll) != streamorder.Collectives {
			messages = append(messages, i)
			continue
		}
		by := b.carrier(&x.calls[i])
		if n := len(all); n == 0 || all[n-1].by != by {
			all = append(all, part{by: by})
		}
		last := &all[len(all)-1]
		last.calls = append(last.calls, i)
	}
	if len(messages) == 0 {
		return all
	}
	if n := len(all); n == 0 || all[n-1].by != byHost {
		all = append(all, part{by: byHost})
	}
	last := &all[len(all)-1]
	last.calls = append(last.calls, messages...)
	return all
}

// give gives a part to its backend, as a block.
func (b *either) give(ctx context.Context, x *block, p part) (backend.Pending, error) {
	to, err := b.Turn(ctx, streamorder.QueueOf(x.calls[p.calls[0]].Coll), p.by)
	if err != nil {
		return nil, err
	}
	if err := to.Begin(ctx, len(p.calls), x.async); err != nil {
		return nil, err
	}
	var each [streamorder.NumQueues]uint64
	for _, i := range p.calls {
		if _, err := to.Run(x.ctx[i], &x.calls[i]); err != nil {
			_, late := to.End(ctx)
			return nil, errors.Join(err, late)
		}
		each[streamorder.QueueOf(x.calls[i].Coll)]++
	}
	pending, err := to.End(ctx)
	if err != nil {
		return nil, err
	}
	for q, n := range each {
		if n > 0 {
			b.Took(streamorder.Queue(q), p.by, n, pending)
		}
	}
	return pending, nil
}
