package pg_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store/tcpstore"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/tcp"
)

// forPG makes a pg.Config.
func (c *config) forPG(p *process) (pg.Config, error) {
	full := pg.Config{Init: c.Init, Rank: c.Rank, Size: c.Size, Timeout: c.Timeout, ConnectTimeout: c.ConnectTimeout,
		Transport: c.Transport, Interface: c.Interface, Compression: c.Compression, Checksum: c.Checksum}
	if c.CloseBarrier {
		full.CloseBarrier = pg.On
	}
	var err error
	if c.Certificates != "" {
		if full.TLS, err = c.tls(); err != nil {
			return full, err
		}
	}
	if c.StoreAt != "" {
		if full.Store, err = tcpstore.Dial(context.Background(), c.StoreAt, tcpstore.ClientOptions{}); err != nil {
			return full, err
		}
	}
	if c.DumpSignal != 0 {
		full.Recorder.DumpSignal = syscall.Signal(c.DumpSignal)
	}
	if c.Medium != "" {
		full.Open = openWithFew(c.Medium, c.Files)
	}
	if c.Held {
		full.Open = func(ctx context.Context, tc *transport.Config) (transport.Mesh, error) {
			if err := p.tell("held", "", nil); err != nil {
				return nil, err
			}
			if _, err := p.hear(); err != nil {
				return nil, err
			}
			if c.Medium == "shm" {
				return openWithFew(c.Medium, 0)(ctx, tc)
			}
			return tcp.Open(ctx, tc)
		}
	}
	return full, nil
}

// tls reads certificate, key and authority.
func (c *config) tls() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.Certificates, "cert.pem"), filepath.Join(c.Certificates, "key.pem"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(filepath.Join(c.Certificates, "cert.pem"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, errors.New("no certificate")
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert}, nil
}

// roles are what processes do with their group. The result is the group's error, to be reported.
var roles = map[string]func(p *process, g *pg.Group, arg string) error{
	"loop":  loop,
	"once":  once,
	"check": func(_ *process, g *pg.Group, _ string) error { return checkAll(g) },
	"leave": func(*process, *pg.Group, string) error { return nil },
	"hold": func(p *process, _ *pg.Group, _ string) error { // until told
		_, err := p.hear()
		return err
	},
	"faulty":         faulty,
	"pending":        pending,
	"without rank 0": withoutFirst,
	"late": func(p *process, g *pg.Group, _ string) error { // checks when told
		if _, err := p.hear(); err != nil {
			return err
		}
		return checkAll(g)
	},
}

// loop repeats a call until it fails, and says when it has succeeded once.
func loop(p *process, g *pg.Group, name string) error {
	call := calls[name](g)
	for i := 0; ; i++ {
		if err := call(context.Background()); err != nil {
			if again := call(context.Background()); again == nil {
				return fmt.Errorf("a call went well after the group had failed: %w", err)
			}
			return err
		}
		if i == 0 {
			if err := p.tell("ready", "", nil); err != nil {
				return err
			}
		}
	}
}

// faulty runs the steps of loop with a fault on the victim's rank. In its third step the rank comes late, calls something
// else, or leaves the call out. Where calls are left out a collective of another kind follows each, so that it shows.
func faulty(p *process, g *pg.Group, arg string) error {
	ctx, what := context.Background(), strings.Split(arg, "/")
	name, fault, victim := what[0], what[1], what[2] == "victim"
	call, other := calls[name](g), calls["barrier"](g)
	if name == "barrier" {
		other = calls["small all_reduce"](g)
	}
	for i := 0; ; i++ {
		if first := name == "recv from any"; first && i == 0 || !first && i == 1 { // there rank 0 may be passes ahead of others
			if err := p.tell("ready", "", nil); err != nil {
				return err
			}
		}
		mine := call
		if own := fault != "killed" && fault != "stopped"; i == 3 && victim && own {
			if err := p.tell("fault", "", nil); err != nil {
				return err
			}
			switch fault {
			case "delayed":
				if _, err := p.hear(); err != nil {
					return err
				}
			case "calls another":
				mine = other
			case "skips one":
				mine = func(context.Context) error { return nil }
			}
		}
		err := mine(ctx)
		if err == nil && fault == "skips one" {
			err = other(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// once makes one call.
func once(_ *process, g *pg.Group, name string) error {
	err := calls[name](g)(context.Background())
	if err == nil { // who has only sent is done; the next call knows
		err = g.Barrier(context.Background())
	}
	return err
}

// pending starts a receive that nothing will answer, and closes the group under it.
func pending(_ *process, g *pg.Group, _ string) error {
	ctx := context.Background()
	w := g.RecvAnyAsync(ctx, colligo.Of(make([]float32, 1)), 0)
	r := g.AllReduceAsync(ctx, colligo.Of(make([]float32, 1)), colligo.Sum)
	closed := make(chan error, 1)
	go func() { closed <- g.Close() }()
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := w.Wait(limit); !errors.Is(err, colligo.ErrClosed) && !errors.Is(err, colligo.ErrPeerLost) {
		return fmt.Errorf("the receive ended with %w", err)
	}
	if err := r.Wait(limit); !errors.Is(err, colligo.ErrClosed) && !errors.Is(err, colligo.ErrPeerLost) {
		return fmt.Errorf("the all_reduce ended with %w", err)
	}
	err := <-closed
	names := fmt.Sprintf("pg: close group %s: rank %d had pending operations, which have failed: all_reduce #1, recv #1: %v", g.Name(), g.Rank(), g.Err())
	lost := errors.Is(w.Err(), colligo.ErrPeerLost) && errors.Is(r.Err(), colligo.ErrPeerLost)
	if named := err != nil && err.Error() == names; !named && (err != nil || !lost) { // without an error if a peer had ended the group before
		return fmt.Errorf("Close returned %v; the receive ended with %w, the all_reduce with %w", err, w.Err(), r.Err())
	}
	if err := g.Close(); err != nil {
		return err
	}
	if err := g.Barrier(ctx); !errors.Is(err, colligo.ErrClosed) && !errors.Is(err, colligo.ErrPeerLost) {
		return fmt.Errorf("after Close a barrier ended with %w", err)
	}
	return nil
}

// withoutFirst has the other ranks make a group, and work in it when rank 0 has left with the store.
func withoutFirst(p *process, g *pg.Group, _ string) error {
	ctx := context.Background()
	others, err := g.NewGroup(ctx, []int{1, 2})
	if err != nil || g.Rank() == 0 {
		return err
	}
	if _, err := p.hear(); err != nil {
		return err
	}
	x, peer := make([]float32, 10), 3-g.Rank()
	w := g.SendAsync(ctx, colligo.Of(make([]float32, 10)), peer, 0)
	return errors.Join(checkAll(others), g.Recv(ctx, colligo.Of(x), peer, 0), w.Wait(ctx), others.Close())
}

// checkAll runs collectives and holds the results against the definition.
func checkAll(g *pg.Group) error {
	ctx := context.Background()
	for _, n := range []int{0, 1, 1009, 300_000} {
		x := filled(g.Rank(), n, 0)
		if err := g.AllReduce(ctx, colligo.Of(x), colligo.Sum); err != nil {
			return err
		}
		if err := same(x, sum(g.Size(), n, 0)); err != nil {
			return fmt.Errorf("all_reduce of %d: %w", n, err)
		}
		out := make([]float32, n)
		if err := g.ReduceScatterTensor(ctx, colligo.Of(out), colligo.Of(filled(g.Rank(), n*g.Size(), 0)), colligo.Sum); err != nil {
			return err
		}
		if err := same(out, sum(g.Size(), n, n*g.Rank())); err != nil {
			return fmt.Errorf("reduce_scatter of %d: %w", n, err)
		}
		x = filled(g.Rank(), n, 5)
		if err := g.Broadcast(ctx, colligo.Of(x), g.Size()-1); err != nil {
			return err
		}
		if err := same(x, filled(g.Size()-1, n, 5)); err != nil {
			return fmt.Errorf("broadcast of %d: %w", n, err)
		}
	}
	return g.Barrier(ctx)
}

func same(got, want []float32) error {
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("element %d is %v, not %v", i, got[i], want[i])
		}
	}
	return nil
}
