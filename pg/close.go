package pg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/colligo-go/colligo"
)

// farewell is how long pending operations of a group that is being closed may take to end, where no hook hears of them.
const farewell = time.Second

// drain lets the pending operations of a group end that has not failed, before it is closed.
func drain(g *Group) {
	if g.ops.Pending() == 0 {
		return
	}
	g.devices.watch.Hurry()
	until := time.Now().Add(farewell)
	if g.ops.Hooks.Any() {
		until = time.Now().Add(never)
		if g.config.Watchdog.OnError == NoHandling {
			until = time.Now().Add(g.limits.now())
		}
	}
	for failed := false; time.Now().Before(until) && !endWithin(g, min(farewell/10, time.Until(until))); {
		if !failed && g.Err() != nil { // then all that can end does so soon
			failed, until = true, time.Now().Add(farewell)
		}
	}
	g.devices.watch.LookLast() // a busy machine may have held the watchdog up while operations ended
}

// never is longer than any operation takes: each has a limit of its own, at which the group fails.
const never = 1000 * time.Hour

// endWithin reports whether no operation is pending after so long.
func endWithin(g *Group, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return g.ops.Wait(ctx) == nil
}

// endOfDevices is the error with which devices end their operations. Where some are pending, they are not waited for again.
func endOfDevices(g *Group) error {
	err := g.Err()
	if err == colligo.ErrClosed && g.ops.Pending() > 0 {
		err = fmt.Errorf("operations were pending: %w", err)
	}
	return err
}

// unfinished returns an error that names the operations that have failed since the group began to close, nil if none has.
func unfinished(g *Group) error {
	names := g.ops.Unfinished.String()
	if names == "" {
		return nil
	}
	return fmt.Errorf("pg: close group %s: rank %d had pending operations, which have failed: %s: %w", g.name, g.rank, names, g.Err())
}

// CloseAll closes all groups of the Init that g comes from, the youngest first, each as Close does. With the last it closes
// the store that Init opened. It returns the errors of all.
//
// c10d closes so when its default group is destroyed. Here a package has no state, so a program keeps what Init returned.
// c10d: destroy_process_group of the default group.
func (g *Group) CloseAll() error {
	var errs []error
	for _, n := range slices.Backward(g.Groups()) {
		errs = append(errs, n.Close())
	}
	return errors.Join(append(errs, g.Close())...)
}
