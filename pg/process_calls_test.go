package pg_test

import (
	"context"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// large is the elements of calls that take long enough to be interrupted.
const large = 1 << 20

// calls are collectives and messages that processes repeat, each over memory of its own.
var calls = map[string]func(g *pg.Group) func(context.Context) error{
	"all_reduce":       reducing(large),
	"small all_reduce": reducing(3),
	"1 MiB all_reduce": reducing(1 << 18),
	"max":              func(g *pg.Group) func(context.Context) error { return allReduce(g, make([]float32, 100), colligo.Max) },
	"sum":              reducing(100),
	"fewer":            reducing(99),
	"int32":            func(g *pg.Group) func(context.Context) error { return allReduce(g, make([]int32, 100), colligo.Sum) },
	"broadcast":        broadcasting(0),
	"broadcast from 1": broadcasting(1),
	"reduce":           func(g *pg.Group) func(context.Context) error { return reduceTo(g, 0) },
	"reduce to 1":      func(g *pg.Group) func(context.Context) error { return reduceTo(g, 1) },
	"all_gather":       allGather,
	"reduce_scatter":   reduceScatter,
	"all_to_all":       allToAll,
	"gather":           gather,
	"scatter":          scatter,
	"send and recv":    aroundTheRing,
	"recv from any":    toTheFirst,
	"barrier":          func(g *pg.Group) func(context.Context) error { return g.Barrier },
}

func allReduce[E colligo.Element](g *pg.Group, x []E, op colligo.ReduceOp) func(context.Context) error {
	return func(ctx context.Context) error { return g.AllReduce(ctx, colligo.Of(x), op) }
}

func reducing(n int) func(*pg.Group) func(context.Context) error {
	return func(g *pg.Group) func(context.Context) error { return allReduce(g, make([]float32, n), colligo.Sum) }
}

func broadcasting(root int) func(*pg.Group) func(context.Context) error {
	return func(g *pg.Group) func(context.Context) error {
		x := make([]float32, large/4)
		return func(ctx context.Context) error { return g.Broadcast(ctx, colligo.Of(x), root) }
	}
}

func reduceTo(g *pg.Group, root int) func(context.Context) error {
	x := make([]float32, large/4)
	return func(ctx context.Context) error { return g.Reduce(ctx, colligo.Of(x), root, colligo.Sum) }
}

func allGather(g *pg.Group) func(context.Context) error {
	in, out := make([]float32, large/4), make([]float32, large/4*g.Size())
	return func(ctx context.Context) error { return g.AllGatherIntoTensor(ctx, colligo.Of(out), colligo.Of(in)) }
}

func reduceScatter(g *pg.Group) func(context.Context) error {
	in, out := make([]float32, large/4*g.Size()), make([]float32, large/4)
	return func(ctx context.Context) error {
		return g.ReduceScatterTensor(ctx, colligo.Of(out), colligo.Of(in), colligo.Sum)
	}
}

func allToAll(g *pg.Group) func(context.Context) error {
	in, out := make([]float32, large), make([]float32, large)
	return func(ctx context.Context) error {
		return g.AllToAllSingle(ctx, colligo.Of(out), colligo.Of(in), nil, nil)
	}
}

func gather(g *pg.Group) func(context.Context) error {
	in := make([]float32, large/4)
	var outs [][]float32
	if g.Rank() == 0 {
		outs = parts(g.Size(), len(in))
	}
	return func(ctx context.Context) error { return g.Gather(ctx, tensors(outs), colligo.Of(in), 0) }
}

func scatter(g *pg.Group) func(context.Context) error {
	out := make([]float32, large/4)
	var ins [][]float32
	if g.Rank() == 0 {
		ins = parts(g.Size(), len(out))
	}
	return func(ctx context.Context) error { return g.Scatter(ctx, colligo.Of(out), tensors(ins), 0) }
}

// aroundTheRing sends to the next rank and receives from the one before.
func aroundTheRing(g *pg.Group) func(context.Context) error {
	in, out := make([]float32, large/4), make([]float32, large/4)
	next, before := (g.Rank()+1)%g.Size(), (g.Rank()+g.Size()-1)%g.Size()
	return func(ctx context.Context) error {
		w := g.SendAsync(ctx, colligo.Of(out), next, 7)
		if err := g.Recv(ctx, colligo.Of(in), before, 7); err != nil {
			<-w.Done()
			return err
		}
		return w.Wait(ctx)
	}
}

// toTheFirst has rank 0 receive from whoever sends, and answer.
func toTheFirst(g *pg.Group) func(context.Context) error {
	x := make([]float32, 1000)
	if g.Rank() != 0 {
		return func(ctx context.Context) error {
			if err := g.Send(ctx, colligo.Of(x), 0, 1); err != nil {
				return err
			}
			return g.Recv(ctx, colligo.Of(x), 0, 2)
		}
	}
	return func(ctx context.Context) error {
		from, err := g.RecvAny(ctx, colligo.Of(x), 1)
		if err != nil {
			return err
		}
		return g.Send(ctx, colligo.Of(x), from, 2)
	}
}
