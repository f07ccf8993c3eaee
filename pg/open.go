package pg

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/shm"
	"github.com/colligo-go/colligo/transport/tcp"
)

// formatVersion changes when ranks of different versions could not work together.
const formatVersion = 1

// card is what a rank tells the others of itself before they link.
type card struct {
	Version   int
	Size      int
	Transport string // wanted
	Host      string // identity of the host for shm; empty if shm cannot be used
	Process   string // for messages
}

// open makes a group: registers this rank in the store, agrees on the medium with the others, and links with them. The
// context bounds all of it.
func open(ctx context.Context, w *world, c Config, name string, rank int, ranks []int) (*Group, error) {
	g := &Group{name: name, rank: rank, size: len(ranks), ranks: ranks, timeout: c.Timeout, log: c.Log, config: c, world: w,
		choices: c.Choices, id: identity(name), busy: make([]bool, len(ranks)), taken: make([]any, len(ranks)),
		store: store.NewPrefix("colligo/"+name, w.store)}
	if g.size == 1 {
		return g, nil
	}
	medium, err := g.agree(ctx)
	if err != nil {
		return nil, err
	}
	secret, err := g.secret(ctx)
	if err != nil {
		return nil, err
	}
	tc := &transport.Config{Rank: rank, Size: g.size, Group: g.id, Name: name, Lanes: 1 + maxLanes, Secret: secret,
		Rendezvous: g.store, Events: transport.Events{Note: g.onNote, Lost: g.onLost}, Log: c.Log, Host: c.Interface,
		Probe: w.probe, TLS: c.TLS, Compression: c.Compression, Checksum: c.Checksum}
	mesh, err := medium(ctx, tc)
	if err != nil {
		return nil, err
	}
	g.use(mesh)
	// Nobody may leave, and take the store along, before everybody is linked.
	if err := g.Barrier(ctx); err != nil {
		return nil, errors.Join(err, mesh.Close())
	}
	return g, nil
}

// use gives the group its mesh.
func (g *Group) use(mesh transport.Mesh) {
	g.mesh = mesh
	g.links = make([]transport.Link, g.size)
	for peer := range g.links {
		if peer != g.rank {
			g.links[peer] = mesh.Link(peer)
		}
	}
	g.port.links = g.links
	g.ready.Store(&mesh)
}

type opener func(context.Context, *transport.Config) (transport.Mesh, error)

// agree exchanges cards with all ranks and returns how to open the mesh.
func (g *Group) agree(ctx context.Context) (opener, error) {
	mine := card{Version: formatVersion, Size: g.size, Transport: g.config.Transport, Process: process()}
	if g.config.Open != nil {
		mine.Transport = "given"
	} else if mine.Transport != "tcp" {
		mine.Host = shm.HostID()
	}
	if err := g.register(ctx, mine); err != nil {
		return nil, err
	}
	sameHost := mine.Host != ""
	for r := range g.size {
		theirs, err := g.cardOf(ctx, r)
		if err != nil {
			return nil, err
		}
		if err := mine.fits(r, theirs); err != nil {
			return nil, err
		}
		sameHost = sameHost && theirs.Host == mine.Host
	}
	return g.medium(sameHost)
}

// register puts this rank's card into the store, once.
func (g *Group) register(ctx context.Context, mine card) error {
	b, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	got, err := g.store.CompareSet(ctx, rankKey(g.rank), nil, b)
	if err != nil {
		return fmt.Errorf("registering in the store: %w", err)
	}
	if string(got) != string(b) {
		var other card
		if err := json.Unmarshal(got, &other); err != nil {
			return fmt.Errorf("the store's entry for rank %d is not ours: %w", g.rank, err)
		}
		return fmt.Errorf("rank %d of group %s is taken by %s: another process has the same rank, or the store is left over from another run",
			g.rank, g.name, other.Process)
	}
	return nil
}

func rankKey(r int) string { return fmt.Sprintf("rank/%d", r) }

// cardOf waits for another rank's card.
func (g *Group) cardOf(ctx context.Context, r int) (card, error) {
	var c card
	b, err := g.store.Get(ctx, rankKey(r))
	switch {
	case errors.Is(err, store.ErrTimeout) || err != nil && ctx.Err() != nil:
		return c, g.whoHasNotCome(r, err)
	case err != nil:
		return c, fmt.Errorf("rank %d had not come to group %s when the store failed: %w", r, g.name, err)
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("card of rank %d: %w", r, err)
	}
	return c, nil
}

// whoHasNotCome names the ranks that have not registered, the known one at least.
func (g *Group) whoHasNotCome(known int, cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var missing []int
	for r := range g.size {
		if ok, err := g.store.Check(ctx, rankKey(r)); r == known || err == nil && !ok {
			missing = append(missing, r)
		}
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		cause = fmt.Errorf("%w: %w", colligo.ErrTimeout, cause)
	}
	return fmt.Errorf("%s %s not come to group %s: %w", rankList(missing), have(missing), g.name, cause)
}

// fits refuses ranks that mean another group.
func (c card) fits(r int, theirs card) error {
	switch {
	case theirs.Version != c.Version:
		return fmt.Errorf("rank %d (%s) speaks version %d of the format, this rank version %d", r, theirs.Process, theirs.Version, c.Version)
	case theirs.Size != c.Size:
		return fmt.Errorf("rank %d (%s) says the group has %d ranks, here it has %d", r, theirs.Process, theirs.Size, c.Size)
	case theirs.Transport != c.Transport:
		return fmt.Errorf("rank %d (%s) wants transport %s, this rank %s", r, theirs.Process, theirs.Transport, c.Transport)
	}
	return nil
}

// medium picks the transport and says aloud when it is not the one that was hoped for.
func (g *Group) medium(sameHost bool) (opener, error) {
	switch {
	case g.config.Open != nil:
		return g.config.Open, nil
	case g.config.Transport == "tcp":
		return tcp.Open, nil
	case sameHost:
		return shm.Open, nil
	case g.config.Transport == "shm":
		return nil, errors.New("transport shm: the ranks are not on one Linux host and network namespace")
	}
	if g.rank == 0 {
		g.log.Info("ranks cannot share memory, using tcp", "group", g.name)
	}
	return tcp.Open, nil
}

// secret is made by rank 0 and handed out through the store.
func (g *Group) secret(ctx context.Context) ([]byte, error) {
	if g.rank != 0 {
		return g.store.Get(ctx, "secret")
	}
	b := make([]byte, 32)
	rand.Read(b)
	return b, g.store.Set(ctx, "secret", b)
}

// process names this process for messages on other ranks.
func process() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("process %d on %s, since %s", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339Nano))
}
