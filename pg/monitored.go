package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/colligo-go/colligo"
)

// MonitoredBarrier returns when every rank has called it, and after the timeout (0 takes the group's, and the context's
// deadline comes before either) fails with an error that names the rank that has not: the first, or with waitAll every one.
// Rank 0 decides, and tells the others. A rank that comes too late gets that error too.
//
// It goes past all collectives over the control channel, and does not wait for those that are pending. Its failure is not
// the group's: whoever caught up can go on. A rank is in one at a time; a second call meanwhile is an error that the others
// do not hear of. c10d: monitored_barrier, where the backend fails with it.
func (g *Group) MonitoredBarrier(ctx context.Context, timeout time.Duration, waitAll bool) error {
	g = g.orOutside()
	if g.rank == colligo.NoRank {
		return g.ungated(0, colligo.NoRank, ErrNotMember)
	}
	if err := g.Err(); err != nil || g.size == 1 {
		return g.ungated(0, colligo.NoRank, err)
	}
	if timeout < 0 {
		return g.ungated(0, colligo.NoRank, fmt.Errorf("a timeout of %v", timeout))
	}
	if timeout == 0 {
		timeout = g.Timeout()
	}
	turn, peer, err := g.control.MonitoredBarrier(ctx, timeout, waitAll)
	return g.ungated(turn, peer, err)
}
