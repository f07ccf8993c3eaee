package pg

import (
	"context"
	"slices"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/gloo"
	"github.com/colligo-go/colligo/pg/internal/host"
	links "github.com/colligo-go/colligo/transport/gloo"
)

// onTorch is a group whose other ranks are PyTorch's. It has no control channel and makes no call of its own.
type onTorch Group

// join links this rank with the others on the CPU. Backends of devices link when they open.
func (c *onTorch) join(ctx context.Context) error {
	g := (*Group)(c)
	switch {
	case g.size == 1: // in which a copy is all that there is to do
		return nil
	case g.devices.selected.Of(colligo.CPU) == "":
		g.host.Refuse(errNoCPU)
		return nil
	}
	p, v := rendezvousOf(g), c.config.version()
	var contexts []*links.Mesh
	for i, name := range strings.Split(g.config.Interface, ",") {
		lc := &links.Config{Rank: g.rank, Size: g.size, Name: g.name, Dialect: gloo.Links(v), Rendezvous: p.Context(i), Host: name,
			Probe: g.job.Probe(), TLS: g.config.TLS, Log: g.log}
		if i > 0 {
			lc.Beside = contexts[0]
		}
		mesh, err := links.Open(ctx, lc)
		if err != nil {
			for _, m := range slices.Backward(contexts) {
				m.Abort()
			}
			return host.Classify(err)
		}
		contexts = append(contexts, mesh)
	}
	w := gloo.New(g.rank, g.size, v, contexts)
	g.host.UseWire(w, w)
	g.use(w)
	return nil
}

// formed does what ranks of PyTorch do when a group has formed: all of the job meet, and its members agree.
func (c *onTorch) formed(ctx context.Context, number int, member bool) error {
	p := rendezvousOf((*Group)(c))
	p.Number = number
	if err := p.Meet(ctx); err != nil || !member {
		return err
	}
	return p.Agree(ctx)
}
