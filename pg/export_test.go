package pg

import (
	"context"
	"time"

	"github.com/colligo-go/colligo/pg/internal/bootstrap"
)

// DupForTest is what a backend's Host.Dup makes.
func DupForTest(ctx context.Context, g *Group, limit time.Duration) (*Group, error) {
	return PartForTest(ctx, g, bootstrap.AllRanks(g.size), limit)
}

// PartForTest is what a backend's Host.Part makes.
func PartForTest(ctx context.Context, g *Group, ranks []int, limit time.Duration) (*Group, error) {
	return g.dup(ctx, ranks, limit)
}

// FailForTest is what a backend's Host.Fail does.
func FailForTest(g *Group, err error) {
	if g.IsMember() {
		g.fail(err, true)
	}
}
