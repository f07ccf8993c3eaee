package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/object"
	"github.com/colligo-go/colligo/pg/pickle"
)

func (x *call) newGroup() error {
	ranks := []int{x.root, (x.root + 1) % x.Size()}
	slices.Sort(ranks)
	ranks = slices.Compact(ranks)
	g, err := x.NewGroup(x.ctx, ranks)
	if err != nil {
		return err
	}
	return x.within(g, ranks)
}

func (x *call) newGroupOfAll() error {
	g, err := x.NewGroup(x.ctx, nil)
	if err != nil {
		return err
	}
	return x.within(g, x.ranks())
}

// splitGroup cuts the group in two halves. It has to be bound to a device.
func (x *call) splitGroup() error {
	if !x.bound {
		return nil
	}
	all, half := x.ranks(), x.Size()/2
	g, err := x.SplitGroup(x.ctx, [][]int{all[:half], all[half:]}, pg.GroupOptions{})
	if err != nil {
		return err
	}
	if x.Rank() < half {
		return x.within(g, all[:half])
	}
	return x.within(g, all[half:])
}

// within uses a new group of some ranks.
func (x *call) within(g *pg.Group, ranks []int) error {
	if !slices.Contains(ranks, x.Rank()) {
		return nil
	}
	for again := range 2 {
		t, err := x.in(numbers(x.number+again, x.Rank(), x.n, x.op))
		if err == nil {
			err = g.AllReduce(x.ctx, t, ops[x.op])
		}
		if err == nil {
			err = x.same(t, fold(x.number+again, ranks, x.n, x.op))
		}
		if err != nil {
			return err
		}
	}
	ctx := object.OnDevice(x.ctx, x.device.Place())
	got, err := object.AllGather(ctx, g, object.Pickle, any(thing(x.number, x.Rank())))
	if err != nil {
		return err
	}
	for i, q := range ranks {
		if err := equal(got[i], thing(x.number, q)); err != nil {
			return err
		}
	}
	if len(ranks) > 1 && g.Rank() < 2 {
		peer := 1 - g.Rank()
		if err := x.swap(g, peer, g.Rank(), x.plain(ranks[peer], x.n)); err != nil {
			return err
		}
	}
	return g.BarrierOn(x.ctx, x.device.Place())
}

// thing is the object of a rank in a call.
func thing(k, rank int) *pickle.Dict {
	d := &pickle.Dict{}
	d.Set("rank", int64(rank))
	d.Set("call", int64(k))
	d.Set("text", strings.Repeat("x", rank*7+k%5))
	d.Set("list", []any{int64(1), 2.5, nil, true})
	return d
}

// equal compares an object that was received.
func equal(got, want any) error {
	if d, ok := got.(*pickle.Dict); ok {
		if w, ok := want.(*pickle.Dict); ok && reflect.DeepEqual(entries(d), entries(w)) {
			return nil
		}
	} else if reflect.DeepEqual(got, want) {
		return nil
	}
	return &wrongError{fmt.Sprintf("%v, want %v", got, want)}
}

func entries(d *pickle.Dict) map[any]any {
	all := map[any]any{}
	for k, v := range d.All() {
		all[k] = v
	}
	return all
}

// objects carries out the object collectives.
func (x *call) objects() error {
	ctx, k, r := object.OnDevice(x.ctx, x.device.Place()), x.number, x.Rank()
	var got []any
	var want []any
	var err error
	every := make([]any, x.Size())
	for q := range every {
		every[q] = thing(k, q)
	}
	switch x.name {
	case "all_gather_object":
		want = every
		got, err = object.AllGather(ctx, x.Group, object.Pickle, any(thing(k, r)))
	case "gather_object":
		if r == x.root {
			want = every
		}
		got, err = object.Gather(ctx, x.Group, object.Pickle, any(thing(k, r)), x.root)
	case "broadcast_object_list":
		got, want = []any{thing(k, r), thing(k+1, r)}, []any{thing(k, x.root), thing(k+1, x.root)}
		err = object.BroadcastList(ctx, x.Group, object.Pickle, got, x.root)
	case "scatter_object_list":
		if r != x.root {
			every = nil
		}
		var one any
		one, err = object.ScatterList(ctx, x.Group, object.Pickle, every, x.root)
		got, want = []any{one}, []any{thing(k, r)}
	case "send_object_list":
		list := []any{thing(k, 0), "second"}
		switch r {
		case 0:
			err = object.SendList(ctx, x.Group, object.Pickle, list, 1, 0)
		case 1:
			got, want = make([]any, 2), list
			_, err = object.RecvList(ctx, x.Group, object.Pickle, got, 0, 0)
		}
	}
	if err != nil {
		return err
	}
	if len(got) != len(want) {
		return &wrongError{fmt.Sprintf("%d objects, want %d", len(got), len(want))}
	}
	for i := range want {
		if err := equal(got[i], want[i]); err != nil {
			return err
		}
	}
	return nil
}
