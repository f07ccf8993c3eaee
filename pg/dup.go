package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// dup makes a group of some ranks, or of all, for operations of a backend on the CPU. They run beside the program's, in an order of
// their own. The ranks call it together, as an Opener can, and all ranks of g call it equally often. The limit is that of one operation.
//
// The group is bound to no device and in no list, and nothing of it is logged or recorded. Its failure is not g's: the
// backend tells g by Host.Fail. The backend closes the group when it is closed itself.
func (g *Group) dup(ctx context.Context, ranks []int, limit time.Duration) (*Group, error) {
	me := slices.Index(ranks, g.rank)
	if !g.IsMember() || me < 0 {
		return nil, ErrNotMember
	}
	global := make([]int, len(ranks))
	for i, r := range ranks {
		global[i] = g.ranks[r]
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	name := g.forming.NameDup()
	if len(ranks) < g.size {
		name = fmt.Sprintf("%s/from%d", name, ranks[0])
	}
	c := g.config
	c.Timeout, c.Desc, c.Device, c.Backends = limit, "beside group "+g.name, colligo.Device{}, ""
	c.Recorder, c.Watchdog, c.Debug = RecorderOptions{}, WatchdogOptions{}, DebugOptions{}
	c.Log = slog.New(slog.DiscardHandler) // what goes wrong is an error of g, which tells
	ctx, cancel := context.WithTimeoutCause(&op.Own{Context: ctx}, c.ConnectTimeout, errConnect)
	defer cancel()
	g.job.Join()
	n := newGroup(g.job, c, bootstrap.Member{Name: name, Rank: me, Ranks: global}, backend.Selection{colligo.CPU: backend.CPU})
	if err := bootstrap.Because(ctx, n.join(ctx, opening{broken: g.brokenBy})); err != nil {
		n.forming.GiveUp(err, clip)
		n.handler.end()
		return nil, errors.Join(fmt.Errorf("%s: rank %d of %d: %w", name, me, len(ranks), err), g.job.Leave())
	}
	n.forming.Formed()
	return n, nil
}
