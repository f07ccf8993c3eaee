package pg

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/shm"
	"github.com/colligo-go/colligo/transport/tcp"
)

// formatVersion changes when ranks of different versions could not work together.
const formatVersion = 2

// card is what a rank tells the others of itself before they link.
type card struct {
	Version   int
	Size      int
	Ranks     string // of the default group, where they are not all
	Transport string // wanted
	Backends  string // wanted; empty: the defaults
	Bound     string // kind of the device that the group is bound to
	Host      string // identity of the host for shm; empty if shm cannot be used
	Detail    bool   `json:",omitempty"` // calls are compared
	Process   string // for messages
	Secret    []byte `json:",omitempty"` // of the group, on rank 0's
	GaveUp    string `json:",omitempty"` // why this rank has left before the group had formed
}

// open makes a group: registers this rank in the store, agrees on the medium with the others, and links with them. The
// context bounds all of it. The group's place among those of its Init is taken, and given back if it does not form.
func open(ctx context.Context, w *world, c Config, o origin) (*Group, error) {
	w.join()
	g := newGroup(w, c, o)
	var err error
	if g.form.backends, err = c.backends(); err == nil {
		err = g.join(ctx)
	}
	if err != nil {
		g.giveUp(err)
		g.aftermath.end()
		if o.first {
			w.linger(o.name, g.size, err)
		}
		return nil, errors.Join(err, w.leave(nil))
	}
	g.formed()
	g.remember()
	w.add(g)
	g.watched()
	if err := g.settleIn(ctx, o); err != nil {
		g.fail(err, true)
		if o.first {
			w.linger(o.name, g.size, err)
		}
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// settleIn does what a group that has formed is to do before it is handed out.
func (g *Group) settleIn(ctx context.Context, o origin) error {
	if g.config.Device.Kind != colligo.CPU {
		if err := g.connectEagerly(ctx); err != nil {
			return err
		}
	}
	if g.config.InitBarrier == On && o.barrier && g.size > 1 {
		return barrierInStore(ctx, g.store, g.name, g.size)
	}
	return nil
}

func newGroup(w *world, c Config, o origin) *Group {
	size := len(o.ranks)
	g := &Group{name: o.name, rank: o.rank, size: size, ranks: o.ranks, timeout: c.Timeout, log: c.Log, config: c, world: w,
		choices: c.Choices, id: identity(o.name), busy: make([]bool, size), taken: make([]any, size),
		store: store.NewPrefix(storePrefix(o.name), w.store)}
	g.form = formation{desc: c.Desc, tag: o.tag, first: o.first, root: o.root, epoch: o.epoch}
	if o.root == "" {
		g.form.root = o.name
	}
	g.form.keys.store = g.store
	g.listen()
	return g
}

// storePrefix is before the keys of a group.
func storePrefix(name string) string { return "colligo/" + name }

// join links this rank with the others.
func (g *Group) join(ctx context.Context) error {
	if g.size == 1 {
		return nil
	}
	medium, secret, err := g.agree(ctx)
	if err != nil {
		return err
	}
	g.aftermath.run = runOf(secret)
	c := &g.config
	tc := &transport.Config{Rank: g.rank, Size: g.size, Group: g.id, Name: g.name, Lanes: 1 + maxLanes, Secret: secret,
		Rendezvous: &g.form.keys, Events: transport.Events{Note: g.control.Receive, Lost: g.onLost}, Log: c.Log, Host: c.Interface,
		Probe: g.world.probe, TLS: c.TLS, Compression: c.Compression, Checksum: c.Checksum}
	mesh, err := medium(ctx, tc)
	if err != nil {
		return classify(err)
	}
	g.use(mesh)
	// Nobody may leave, and take the store along, before everybody is linked.
	if err := g.Barrier(asOwn(ctx)); err != nil {
		return errors.Join(err, mesh.Close())
	}
	return nil
}

// connectEagerly opens the backend of the device that the group is bound to.
func (g *Group) connectEagerly(ctx context.Context) error {
	g.order.Lock()
	defer g.order.Unlock()
	_, err := g.backendFor(ctx, g.config.Device)
	return err
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
	g.control.Use(mesh)
}

type opener func(context.Context, *transport.Config) (transport.Mesh, error)

// agree exchanges cards with all ranks and returns how to open the mesh, and the group's secret.
func (g *Group) agree(ctx context.Context) (opener, []byte, error) {
	mine := g.card()
	if err := g.register(ctx, mine); err != nil {
		return nil, nil, err
	}
	sameHost, secret := mine.Host != "", mine.Secret
	// In ever larger batches: few requests for the store, and who does not fit is found before all have come.
	for first, n := 0, 1; first < g.size; first, n = first+n, 2*n {
		theirs, err := g.cardsOf(ctx, mine, first, min(first+n, g.size))
		if err != nil {
			return nil, nil, err
		}
		for _, c := range theirs {
			sameHost = sameHost && c.Host == mine.Host
		}
		if first == 0 {
			secret = theirs[0].Secret
		}
	}
	medium, err := g.medium(sameHost)
	return medium, secret, err
}

// card makes this rank's card. The secret is made by rank 0 and handed out on its card.
func (g *Group) card() card {
	c := card{Version: formatVersion, Size: g.size, Transport: g.config.Transport, Detail: g.detailed(), Process: process()}
	if !g.form.first {
		c.Ranks = fmt.Sprint(g.ranks)
	}
	if g.config.Backends != "" {
		c.Backends = g.form.backends.String()
	}
	if g.config.Device.Kind != colligo.CPU {
		c.Bound = g.config.Device.Kind.String()
	}
	if g.config.Open != nil {
		c.Transport = "given"
	} else if c.Transport != "tcp" {
		c.Host = shm.HostID()
	}
	if g.rank == 0 {
		c.Secret = make([]byte, 32)
		rand.Read(c.Secret)
	}
	return c
}

// register puts this rank's card into the store, once. That of a rank that gave up may be written over.
func (g *Group) register(ctx context.Context, mine card) error {
	b, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	for was := []byte(nil); ; {
		got, err := g.store.CompareSet(ctx, rankKey(g.rank), was, b)
		if err != nil {
			return fmt.Errorf("registering in the store: %w", err)
		}
		if string(got) == string(b) {
			g.form.keys.note(rankKey(g.rank))
			return nil
		}
		other, err := readCard(g.rank, got)
		if err != nil {
			return err
		}
		if other.GaveUp == "" {
			return fmt.Errorf("rank %d of group %s is taken by %s: another process has the same rank, or the store is left over from another run",
				g.rank, g.name, other.Process)
		}
		was = got
	}
}

// giveUpLimit bounds how long a rank that gives up tries to say so.
const giveUpLimit = 250 * time.Millisecond

// giveUp puts into the store why this rank leaves before the group has formed, for those that look for it there.
func (g *Group) giveUp(cause error) {
	k := &g.form.keys
	k.mu.Lock()
	set := slices.Clone(k.set)
	k.mu.Unlock()
	if !slices.Contains(set, rankKey(g.rank)) {
		return
	}
	mine := g.card()
	mine.GaveUp, mine.Secret = clip(cause.Error()), nil
	b, err := json.Marshal(mine)
	ctx, cancel := context.WithTimeout(context.Background(), giveUpLimit)
	defer cancel()
	if err == nil {
		err = g.store.Set(ctx, rankKey(g.rank), b)
	}
	if err != nil {
		g.log.Debug("could not say in the store why this rank gave up", "group", g.name, "rank", g.rank, "error", err)
	}
	if !g.form.first { // whose card stays: it tells the others, and is no obstacle to another attempt
		g.world.litter(g.store, set)
	}
}

func rankKey(r int) string { return fmt.Sprintf("rank/%d", r) }

func readCard(r int, b []byte) (card, error) {
	var c card
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("the store's entry for rank %d is not ours: %w", r, err)
	}
	return c, nil
}

// secondChance is how long the card of a rank that gave up may wait to be replaced by its next attempt.
const secondChance = time.Second

// cardsOf waits for the cards of ranks from first up to end, and holds them against this rank's.
func (g *Group) cardsOf(ctx context.Context, mine card, first, end int) ([]card, error) {
	names := make([]string, 0, end-first)
	for r := first; r < end; r++ {
		names = append(names, rankKey(r))
	}
	var left error // a rank that has come and gone
	for until := time.Now().Add(secondChance); ; {
		all, err := g.store.MultiGet(ctx, names)
		if err != nil && left != nil {
			return nil, left
		}
		if err != nil {
			return nil, g.whoHasNotCome(ctx, err)
		}
		var cards []card
		if cards, left, err = mine.compare(first, all); err != nil {
			return nil, err
		}
		if left == nil || time.Now().After(until) {
			return cards, left
		}
		select {
		case <-time.After(secondChance / 20):
		case <-ctx.Done():
			return nil, left
		}
	}
}

// compare reads the cards of ranks from first on. Who does not fit is an error, unless that rank has left; what is left
// then says it.
func (c card) compare(first int, all [][]byte) (cards []card, left, err error) {
	cards = make([]card, len(all))
	for i, b := range all {
		r := first + i
		if cards[i], err = readCard(r, b); err != nil {
			return nil, nil, err
		}
		theirs, unfit := &cards[i], c.fits(r, cards[i])
		switch {
		case theirs.GaveUp == "" && unfit != nil:
			return nil, nil, unfit
		case theirs.GaveUp != "" && left == nil && unfit != nil:
			left = unfit
		case theirs.GaveUp != "" && left == nil:
			left = fmt.Errorf("rank %d (%s) has given up: %s", r, theirs.Process, theirs.GaveUp)
		}
	}
	return cards, left, nil
}

// whoHasNotCome names the ranks that have not registered, if that is why their cards could not be had.
func (g *Group) whoHasNotCome(ended context.Context, cause error) error {
	late := errors.Is(cause, store.ErrTimeout) || ended.Err() != nil
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var missing []int
	for r := range g.size {
		if ok, err := g.store.Check(ctx, rankKey(r)); err == nil && !ok {
			missing = append(missing, r)
		}
	}
	switch {
	case !late || missing == nil:
		return fmt.Errorf("group %s had not formed when the store failed: %w", g.name, cause)
	case errors.Is(cause, context.DeadlineExceeded):
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
	case theirs.Ranks != c.Ranks:
		return fmt.Errorf("rank %d (%s) says the group is of ranks %s, here it is of %s", r, theirs.Process, theirs.Ranks, c.Ranks)
	case theirs.Backends != c.Backends && theirs.Backends != "" && c.Backends != "":
		return fmt.Errorf("rank %d (%s) wants backends %s, this rank %s", r, theirs.Process, theirs.Backends, c.Backends)
	case theirs.Bound != c.Bound:
		return fmt.Errorf("rank %d (%s) binds the group to %s, this rank to %s", r, theirs.Process, device(theirs.Bound), device(c.Bound))
	case theirs.Detail != c.Detail:
		return fmt.Errorf("rank %d (%s) has debug level DETAIL: %v, this rank: %v", r, theirs.Process, theirs.Detail, c.Detail)
	case theirs.Transport != c.Transport:
		return fmt.Errorf("rank %d (%s) wants transport %s, this rank %s", r, theirs.Process, theirs.Transport, c.Transport)
	}
	return nil
}

func device(kind string) string {
	if kind == "" {
		return "no device"
	}
	return "a device of " + kind
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
		g.log.Info("ranks cannot share memory, using tcp", "group", g.name, "rank", g.rank)
	}
	return tcp.Open, nil
}

// process names this process for messages on other ranks.
func process() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("process %d on %s, since %s", os.Getpid(), host, time.Now().UTC().Format(time.RFC3339Nano))
}
