package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// dup makes a group of the same ranks for operations of a backend on the CPU. They run beside the program's, in an order of
// their own. All ranks call it together, as an Opener can. The limit is that of one operation.
//
// The group is bound to no device and in no list, and nothing of it is logged or recorded. Its failure is not g's: the
// backend tells g by Host.Fail. The backend closes the group when it is closed itself.
func (g *Group) dup(ctx context.Context, limit time.Duration) (*Group, error) {
	if !g.IsMember() {
		return nil, ErrNotMember
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	name := g.forming.NameDup()
	c := g.config
	c.Timeout, c.Desc, c.Device, c.Backends = limit, "beside group "+g.name, colligo.Device{}, ""
	c.Recorder, c.Watchdog, c.Debug = RecorderOptions{}, WatchdogOptions{}, DebugOptions{}
	c.Log = slog.New(slog.DiscardHandler) // what goes wrong is an error of g, which tells
	ctx, cancel := context.WithTimeoutCause(&op.Own{Context: ctx}, c.ConnectTimeout, errConnect)
	defer cancel()
	g.job.Join()
	n := newGroup(g.job, c, bootstrap.Member{Name: name, Rank: g.rank, Ranks: g.ranks}, backend.Selection{colligo.CPU: backend.CPU})
	if err := bootstrap.Because(ctx, n.join(ctx, opening{broken: g.brokenBy})); err != nil {
		n.forming.GiveUp(err, clip)
		n.handler.end()
		return nil, errors.Join(fmt.Errorf("%s: rank %d of %d: %w", name, g.rank, g.size, err), g.job.Leave())
	}
	n.forming.Formed()
	return n, nil
}
