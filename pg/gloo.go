package pg

import (
	"context"

	"github.com/colligo-go/colligo/pg/internal/gloo"
	"github.com/colligo-go/colligo/pg/internal/host"
	links "github.com/colligo-go/colligo/transport/gloo"
)

// onGloo is a group whose other ranks are PyTorch's ProcessGroupGloo. It has no control channel and makes no call of its own.
type onGloo Group

// join links this rank with the others.
func (c *onGloo) join(ctx context.Context) error {
	g := (*Group)(c)
	if g.size == 1 {
		return nil
	}
	p := c.rendezvous()
	mesh, err := links.Open(ctx, &links.Config{Rank: g.rank, Size: g.size, Name: g.name, Dialect: p.Version.Links(), Rendezvous: p.Context(0),
		Host: g.config.Interface, Probe: g.job.Probe(), TLS: g.config.TLS, Log: g.log})
	if err != nil {
		return host.Classify(err)
	}
	w := gloo.New(g.rank, g.size, p.Version, mesh)
	g.host.UseWire(w, w)
	g.use(w)
	return nil
}

// rendezvous is where the group's ranks meet.
func (c *onGloo) rendezvous() *gloo.Rendezvous {
	return &gloo.Rendezvous{Version: c.config.version(), Store: c.job.Store(), Name: c.name, Rank: c.rank, Job: c.job.ranks}
}

// formed does what ranks of PyTorch do when a group has formed: all of the job meet, and its members agree.
func (c *onGloo) formed(ctx context.Context, number int, member bool) error {
	p := c.rendezvous()
	p.Number = number
	if err := p.Meet(ctx); err != nil || !member {
		return err
	}
	return p.Agree(ctx)
}
