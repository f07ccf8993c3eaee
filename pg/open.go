package pg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/pg/internal/op"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/transport"
)

// opening is how the ranks of a group come to form it.
type opening struct {
	// barrier says that the members meet in the store if the configuration asks for it; else their parent does.
	barrier bool
	// broken returns why the ranks cannot come, nil while they can. It counts until the links are open.
	broken func() error
	// leaving is called before the links of a rank end for which the group does not form. It may be nil.
	leaving func()
	// split makes the backend of the device to which the group is bound, if another group's backend is split for it.
	split splitter
}

func (how *opening) leave() {
	if how.leaving != nil {
		how.leaving()
	}
}

// open makes a group: agrees with the other ranks through the store, and links with them. The context bounds all of it. The
// group's place among those of its Init is taken, and given back if it does not form.
func open(ctx context.Context, j *sharedJob, c Config, m bootstrap.Member, how opening) (*Group, error) {
	j.Join()
	selected, err := c.backends()
	g := newGroup(j, c, m, selected)
	if err == nil {
		err = j.Explain(g.join(ctx, how))
	}
	if err != nil {
		g.forming.GiveUp(err, clip)
		err = g.forming.FirstCause(ctx, err, how.broken)
		g.handler.end()
		if m.Default {
			j.Linger(ctx, m.Name, g.size, err)
		}
		return nil, errors.Join(err, j.Leave())
	}
	g.forming.Formed()
	g.ops.Open(j.dumper.recorder, g.name, c.Desc, g.rank, g.ranks, c.Recorder.Timing == On)
	j.open.add(g)
	g.job.monitor.add(&g.handler)
	sayFormed(ctx, g)
	if err := g.settleIn(ctx, how); err != nil {
		how.leave()
		g.fail(err, true)
		if m.Default {
			j.Linger(ctx, m.Name, g.size, err)
		}
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// settleIn does what a group that has formed is to do before it is handed out.
func (g *Group) settleIn(ctx context.Context, how opening) error {
	if d := g.config.Device; d.Kind != colligo.CPU {
		if err := (*onDevice)(g).open(&op.Own{Context: ctx}, d, how.split); err != nil {
			return err
		}
	}
	if speaksTorch(g) && g.forming.Default {
		return (*onTorch)(g).formed(ctx, 1, true)
	}
	if !how.barrier || speaksTorch(g) {
		return nil
	}
	return g.meetInStore(ctx, g.name)
}

// meetInStore is a barrier through the store, for the name of a group that has formed, where the configuration asks for one.
func (g *Group) meetInStore(ctx context.Context, name string) error {
	if g.config.InitBarrier != On || g.size == 1 {
		return nil
	}
	return g.job.Explain(bootstrap.Barrier(ctx, g.forming.Store, name, g.size))
}

func newGroup(j *sharedJob, c Config, m bootstrap.Member, selected backend.Selection) *Group {
	size := len(m.Ranks)
	g := &Group{member: member{m.Name, m.Rank, size, m.Ranks, host.ID(m.Name)}, log: c.Log, config: c, job: j}
	g.host = host.New(host.Config{ID: g.id, Name: g.name, Rank: g.rank, Size: size, Global: g.renumbered(), Tuning: c.Tuning, Group: &events{g}})
	g.handler.sound.Context, g.handler.sound.cancel = context.WithCancelCause(context.Background())
	g.limits.timeout, g.limits.devices = c.Timeout, c.onDevices
	g.devices.selected, g.devices.asking = selected, make(chan struct{}, 1)
	g.devices.watch.Open(&events{g}, &g.ops)
	g.forming = bootstrap.NewFormation(j.Job, m, c.wants(size, selected), c.Log)
	g.devices.host = newSeam(g)
	g.handle()
	g.listen()
	return g
}

// handle gives the failure handler what it needs of the group.
func (g *Group) handle() {
	h := &g.handler
	h.member, h.config, h.log, h.mesh, h.store = &g.member, &g.config, g.log, &g.mesh, g.forming.Store
	h.devices, h.host, h.group = &g.devices, g.host, g
	h.fail = func(err error, at op.Seq) { g.failAt(err, at, false) }
	if g.job.dumper.failures != nil {
		h.dumper = &g.job.dumper
	}
}

// wants is the part of a configuration that all ranks must agree on before they link.
func (c *Config) wants(size int, selected backend.Selection) bootstrap.Wants {
	w := bootstrap.Wants{Transport: c.Transport, Open: c.Open, Detail: c.Debug.Level == DebugDetail && size > 1,
		Table: tuning.Digest(c.Tuning)}
	if c.Backends != "" {
		w.Backends = selected.String()
	}
	if c.Device.Kind != colligo.CPU {
		w.Bound = c.Device.Kind.String()
	}
	return w
}

// join links this rank with the others. Until its links are open it also fails when the ranks cannot come.
func (g *Group) join(ctx context.Context, how opening) error {
	if speaksTorch(g) {
		return (*onTorch)(g).join(ctx)
	}
	if g.size == 1 {
		return nil
	}
	mesh, err := link(ctx, g, how.broken)
	if err != nil {
		return err
	}
	g.use(mesh)
	// Nobody may leave, and take the store along, before everybody is linked.
	defer g.forming.SayWaiting(ctx, func() []int { return g.control.Behind() })()
	if err := g.run(&op.Own{Context: ctx}, g.call().Barrier(colligo.Device{})); err != nil {
		how.leave()
		return errors.Join(err, mesh.Close())
	}
	return nil
}

// link opens the links with the other ranks.
func link(ctx context.Context, g *Group, broken func() error) (transport.Mesh, error) {
	linking, stop := g.forming.Linking(ctx, broken)
	defer stop()
	because := func(err error) error {
		if ctx.Err() != nil {
			return err // the caller knows why
		}
		return bootstrap.Because(linking, err)
	}
	openMesh, secret, err := g.forming.Agree(linking)
	if err != nil {
		return nil, because(err)
	}
	g.handler.run = runOf(secret)
	c := &g.config
	tc := &transport.Config{Rank: g.rank, Size: g.size, Group: g.id, Name: g.name, Lanes: host.Lanes, Secret: secret,
		Rendezvous: g.forming.Rendezvous(), Events: transport.Events{Linked: g.forming.Linked, Note: g.control.Receive, Lost: g.onLost}, Log: c.Log, Host: c.Interface,
		Probe: g.job.Probe(), TLS: c.TLS, Compression: c.Compression, Checksum: c.Checksum}
	linked := g.forming.SayLinking(linking)
	mesh, err := openMesh(linking, tc)
	linked()
	return mesh, host.Classify(because(err))
}

// use gives the group its mesh.
func (g *Group) use(mesh transport.Mesh) {
	if !speaksTorch(g) {
		g.host.Use(mesh, runsAt(g, mesh.String()))
		g.control.Use(mesh)
	}
	g.mesh.Store(&mesh)
}

// brokenBy returns the group's error, or the loss of a rank that is about to be its error; nil while the group is whole.
func (g *Group) brokenBy() error {
	if err := g.Err(); err != nil {
		return err
	}
	return g.host.LostPeer()
}

// errConnect ends what takes longer than ConnectTimeout.
var errConnect = fmt.Errorf("connect %w", colligo.ErrTimeout)

// sayFormed logs what has formed, once for the group.
func sayFormed(ctx context.Context, g *Group) {
	if g.rank != 0 || !g.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	at := "none"
	if m := g.mesh.Load(); m != nil {
		if on, ok := (*m).(interface{ Interface() string }); ok {
			at = on.Interface()
		}
	}
	table := "default"
	if !reflect.DeepEqual(g.config.Tuning, tuning.Default()) {
		table = fmt.Sprintf("given, of %d rules", len(g.config.Tuning))
	}
	g.log.InfoContext(ctx, "group formed", "group", g.name, "rank", g.rank, "size", g.size, "hosts", g.forming.Hosts(), "media", g.Transport(),
		"interface", at, "backends", g.devices.selected.String(), "table", table)
}
