package pg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/op"
)

// MonitoredBarrier returns when every rank has called it. After the timeout it fails with an error that names the first
// missing rank, or with waitAll every one. A timeout of 0 is the group's. The context's deadline comes before either.
//
// Rank 0 decides, and tells the others. A rank that comes too late gets that error too. The call goes past all collectives
// over the control channel, and waits neither for pending operations nor for devices.
//
// Its failure does not end the group: ranks that have caught up can go on. A rank may be in one at a time. A second call
// meanwhile is an error of its own, of which other ranks do not hear. c10d: monitored_barrier, where the backend fails with
// it.
//
// With ranks of PyTorch it is two operations over the links, which wait for collectives before them. Its failure ends the group
// then, and names every missing rank.
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
	if overGloo(g.devices.selected) {
		return monitoredOverGloo(ctx, g, timeout)
	} else if speaksTorch(g) {
		return g.ungated(0, colligo.NoRank, errNoMonitoredBarrier)
	}
	turn, peer, err := g.control.MonitoredBarrier(ctx, timeout, waitAll)
	return g.ungated(turn, peer, err)
}

// monitoredOverGloo is a barrier in which rank 0 waits for all, no longer than the timeout, and tells them.
func monitoredOverGloo(ctx context.Context, g *Group, timeout time.Duration) error {
	limited, cancel := ctx, func() {}
	if g.rank == 0 {
		limited, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	if err := g.run(&op.Own{Context: limited}, g.call().MonitoredBarrier(op.Report)); err != nil {
		return err
	}
	return g.run(&op.Own{Context: ctx}, g.call().MonitoredBarrier(op.Answer))
}

// errNoMonitoredBarrier has c10d's words.
var errNoMonitoredBarrier = errors.New("monitored_barrier is only implemented for GLOO backend")
