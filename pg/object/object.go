package object

import (
	"context"
	"errors"
	"fmt"

	"github.com/colligo-go/colligo/pg"
)

// notEncoded stands in the place of a size if the rank could not encode its object. The ranks still call what they would have
// called, and none waits for another.
const notEncoded = -1

// errNoObjects is the error of a list without objects.
var errNoObjects = errors.New("the list of objects is empty")

// AllGather returns the objects of all ranks, by rank, on every rank. If a rank cannot encode its object, every rank gets
// an error that says so, and the group goes on. An object that cannot be decoded is an error of the rank that read it.
// c10d: all_gather_object.
func AllGather[T any](ctx context.Context, g *pg.Group, c Codec, v T) ([]T, error) {
	o := newCall(ctx, g, c, "all_gather_object")
	if err := o.member(); err != nil {
		return nil, o.explain(err)
	}
	own := o.encode(o.g.Size(), v)
	parts, err := o.allGather(own)
	if err != nil {
		return nil, o.explain(err)
	}
	return decodeAll[T](&o, parts)
}

// Gather returns the objects of all ranks, by rank, on the root, and nil on every other rank. Failures are those of
// AllGather. c10d: gather_object.
func Gather[T any](ctx context.Context, g *pg.Group, c Codec, v T, root int) ([]T, error) {
	o := newCall(ctx, g, c, "gather_object")
	if err := o.rooted(root); err != nil {
		return nil, o.explain(err)
	}
	own := o.encode(o.g.Size(), v)
	parts, err := o.gather(own, root)
	if err != nil {
		return nil, o.explain(err)
	}
	if o.g.Rank() != root {
		return nil, nil
	}
	return decodeAll[T](&o, parts)
}

// BroadcastList replaces the objects of list on every rank but the root by the root's. The lists have the same length
// everywhere, at least 1. If the root cannot encode one, every rank gets an error and the group goes on.
// c10d: broadcast_object_list.
func BroadcastList[T any](ctx context.Context, g *pg.Group, c Codec, list []T, root int) error {
	o := newCall(ctx, g, c, "broadcast_object_list")
	if err := errors.Join(o.rooted(root), some(list)); err != nil {
		return o.explain(err)
	}
	var own encoded
	if o.g.Rank() == root {
		own = encodeList(&o, 1, list)
	}
	parts, err := o.broadcast(own, len(list), root)
	if err != nil || o.g.Rank() == root {
		return o.explain(err)
	}
	return decodeInto(&o, parts, list)
}

// ScatterList returns list[Rank()] of the root on every rank; other ranks pass a nil list. If the root cannot encode one,
// every rank gets an error and the group goes on. c10d: scatter_object_list.
func ScatterList[T any](ctx context.Context, g *pg.Group, c Codec, list []T, root int) (v T, err error) {
	o := newCall(ctx, g, c, "scatter_object_list")
	if err := o.rooted(root); err != nil {
		return v, o.explain(err)
	}
	if want := o.g.Size(); o.g.Rank() == root && len(list) != want {
		return v, o.explain(fmt.Errorf("%d objects for %d ranks", len(list), want))
	}
	var own encoded
	if o.g.Rank() == root {
		own = encodeList(&o, o.g.Size(), list)
	}
	part, err := o.scatter(own, root)
	if err != nil {
		return v, o.explain(err)
	}
	return v, o.decode(o.g.Rank(), part, &v)
}

// SendList sends objects to a rank, which receives them with RecvList and a list of the same length. If one cannot be
// encoded, both get an error and the group goes on. c10d: send_object_list.
func SendList[T any](ctx context.Context, g *pg.Group, c Codec, list []T, to, tag int) error {
	o := newCall(ctx, g, c, "send_object_list")
	if err := errors.Join(o.member(), some(list)); err != nil {
		return o.explain(err)
	}
	return o.explain(o.send(encodeList(&o, 1, list), len(list), to, tag))
}

// RecvList receives as many objects as list has from a rank, and returns that rank. With colligo.NoRank it receives from the
// first rank that sends with this tag. c10d: recv_object_list.
func RecvList[T any](ctx context.Context, g *pg.Group, c Codec, list []T, from, tag int) (source int, err error) {
	o := newCall(ctx, g, c, "recv_object_list")
	if err := errors.Join(o.member(), some(list)); err != nil {
		return from, o.explain(err)
	}
	source, parts, err := o.receive(len(list), from, tag)
	if err != nil {
		return source, o.explain(err)
	}
	return source, decodeInto(&o, parts, list)
}

func some[T any](list []T) error {
	if len(list) == 0 {
		return errNoObjects
	}
	return nil
}

func decodeAll[T any](o *call, parts [][]byte) ([]T, error) {
	out := make([]T, len(parts))
	return out, decodeInto(o, parts, out)
}

// decodeInto leaves the list as it is if one object cannot be decoded.
func decodeInto[T any](o *call, parts [][]byte, list []T) error {
	got := make([]T, len(parts))
	for i := range got {
		if err := o.decode(i, parts[i], &got[i]); err != nil {
			return err
		}
	}
	copy(list, got)
	return nil
}

func encodeList[T any](o *call, copies int, list []T) encoded {
	vs := make([]any, len(list))
	for i, v := range list {
		vs[i] = v
	}
	return o.encode(copies, vs...)
}
