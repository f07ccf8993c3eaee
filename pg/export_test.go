package pg

import (
	"context"
	"time"
)

// DupForTest is what a backend's Host.Dup makes.
func DupForTest(ctx context.Context, g *Group, limit time.Duration) (*Group, error) {
	return g.dup(ctx, limit)
}

// FailForTest is what a backend's Host.Fail does.
func FailForTest(g *Group, err error) {
	if g.IsMember() {
		g.fail(err, true)
	}
}
