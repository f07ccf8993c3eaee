package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
)

// dup makes a group of the same ranks for what a backend does on the CPU beside the program's operations, in an order of
// its own. All ranks call it together, as an Opener can. The group is bound to no device and in no list, nothing is logged
// or recorded of it, and its failure is not g's: the backend tells one to the other by Fail. It closes the group when it
// is closed itself. The limit is that of one operation.
func (g *Group) dup(ctx context.Context, limit time.Duration) (*Group, error) {
	if !g.IsMember() {
		return nil, ErrNotMember
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.dups++
	name := fmt.Sprintf("%s/dup%d", g.name, g.dups)
	g.mu.Unlock()
	c := g.config
	c.Timeout, c.Desc, c.Device, c.Backends, c.Watch = limit, "beside group "+g.name, colligo.Device{}, "", Watch{}
	c.Log = slog.New(slog.DiscardHandler) // what goes wrong is an error of g, which tells
	ctx, cancel := context.WithTimeoutCause(asOwn(ctx), c.ConnectTimeout, errConnect)
	defer cancel()
	ctx, stop := g.whileWhole(ctx)
	defer stop()
	g.world.join()
	n := newGroup(g.world, c, origin{name: name, rank: g.rank, ranks: g.ranks})
	n.form.backends = backend.Selection{colligo.CPU: backend.CPU}
	if err := because(ctx, n.join(ctx)); err != nil {
		n.giveUp(err)
		n.aftermath.end()
		return nil, errors.Join(fmt.Errorf("%s: rank %d of %d: %w", name, g.rank, g.size, err), g.world.leave(n))
	}
	n.formed()
	return n, nil
}
