package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels"
)

// code is the kernels that are on the device.
type code struct {
	log     *slog.Logger
	ahead   bool // kernels are launched ahead
	repeats repeats
	modules []cuda.Module
	move    moves
	reduce  map[reduction]*reducers
	scale   map[colligo.DType]cuda.Function
}

// moves are the entry points that know no element type.
type moves struct {
	copy, exchangePackets, exchangeTiles          cuda.Function
	exchangeTurns, exchangeDirect, broadcastChain cuda.Function
}

// put stores an entry point.
func (m *moves) put(name string, f cuda.Function) {
	switch name {
	case kernels.CopyBytes:
		m.copy = f
	case kernels.ExchangePackets:
		m.exchangePackets = f
	case kernels.ExchangeTiles:
		m.exchangeTiles = f
	case kernels.ExchangeTurns:
		m.exchangeTurns = f
	case kernels.ExchangeDirect:
		m.exchangeDirect = f
	case kernels.BroadcastChain:
		m.broadcastChain = f
	}
}

// reduction is a kind of reduction on an element type.
type reduction struct {
	dtype colligo.DType
	kind  colligo.OpKind
}

// reducers are the entry points of a reduction; those of families that were not needed are 0.
type reducers struct {
	two                              cuda.Function
	oneShot, twoShot, scatterPackets cuda.Function
	tiles, scatterTiles              cuda.Function
	rows, rowsTwoShot, direct        cuda.Function
}

func (r *reducers) has(f kernels.Family) bool {
	switch f {
	case kernels.LocalFamily:
		return r.two != 0
	case kernels.PacketFamily:
		return r.oneShot != 0
	case kernels.RowFamily:
		return r.rows != 0
	case kernels.DirectFamily:
		return r.direct != 0
	}
	return r.tiles != 0
}

// put stores an entry point.
func (r *reducers) put(name string, f cuda.Function) {
	switch name {
	case kernels.ReduceTwo:
		r.two = f
	case kernels.AllReduceOneShot:
		r.oneShot = f
	case kernels.AllReduceTwoShot:
		r.twoShot = f
	case kernels.ReduceScatterPackets:
		r.scatterPackets = f
	case kernels.AllReduceTiles:
		r.tiles = f
	case kernels.ReduceScatterTiles:
		r.scatterTiles = f
	case kernels.AllReduceRows:
		r.rows = f
	case kernels.AllReduceRowsTwoShot:
		r.rowsTwoShot = f
	case kernels.AllReduceDirect:
		r.direct = f
	}
}

// load puts a module on the device and hands its entry points to put.
func (c *code) load(t cuda.Thread, m kernels.Module, put func(name string, f cuda.Function)) error {
	source := m.PTX
	if c.ahead {
		source = m.AheadPTX
	}
	ptx, err := source()
	if err != nil {
		return err
	}
	// Loading would break a capture that is going on in the process, though it has no part in it.
	before, err := t.ExchangeCaptureMode(cuda.CaptureRelaxed)
	if err != nil {
		return err
	}
	start := time.Now()
	err = c.compile(t, m, ptx, put)
	c.log.Debug("kernels loaded", "module", m.Name(), "ptx", len(ptx), "took", time.Since(start))
	_, err2 := t.ExchangeCaptureMode(before)
	return errors.Join(err, err2)
}

func (c *code) compile(t cuda.Thread, m kernels.Module, ptx []byte, put func(name string, f cuda.Function)) error {
	mod, err := t.LoadModule(m.Name(), ptx)
	if err != nil {
		return c.rejected(t, err)
	}
	c.modules = append(c.modules, mod)
	for _, e := range m.Entries() {
		f, err := t.Function(mod, e.Name)
		if err != nil {
			return fmt.Errorf("module %s: %w", m.Name(), err)
		}
		if err := c.repeats.add(t, f, e.Args); err != nil {
			return fmt.Errorf("module %s: %s: %w", m.Name(), e.Name, err)
		}
		put(e.Name, f)
	}
	return nil
}

// rejected says what driver and device did not take a module.
func (c *code) rejected(t cuda.Thread, err error) error {
	major, minor, err2 := t.Driver().Version()
	if err2 != nil {
		return err
	}
	text := fmt.Sprintf("the driver, which is CUDA %d.%d's", major, minor)
	capability, err2 := t.Attribute(cuda.ComputeCapabilityMajor)
	below, err3 := t.Attribute(cuda.ComputeCapabilityMinor)
	if err2 == nil && err3 == nil {
		text += fmt.Sprintf(", for %v of compute capability %d.%d,", t.Device, capability, below)
	}
	if errors.Is(err, cuda.UnsupportedPTXVersion) {
		return fmt.Errorf("%s is too old for the kernels: %w", text, err)
	}
	return fmt.Errorf("%s does not take the kernels: %w", text, err)
}

func (c *code) loadMoves(t cuda.Thread) error {
	c.reduce, c.scale = map[reduction]*reducers{}, map[colligo.DType]cuda.Function{}
	return c.load(t, kernels.MoveModule(), c.move.put)
}

func (c *code) unload(t cuda.Thread) error {
	errs := []error{c.repeats.free(t)}
	for _, m := range c.modules {
		errs = append(errs, t.UnloadModule(m))
	}
	c.modules = nil
	return errors.Join(errs...)
}

// reducers returns the kernels of a reduction with a family loaded. All ranks come here with the same operation.
func (b *backend) reducers(ctx context.Context, t cuda.Thread, d colligo.DType, k colligo.OpKind, f kernels.Family) (*reducers, error) {
	r := b.code.reduce[reduction{d, k}]
	if r != nil && r.has(f) {
		return r, nil
	}
	if r == nil {
		r = &reducers{}
		b.code.reduce[reduction{d, k}] = r
	}
	m, err := kernels.ReduceModule(d, k, f)
	if err != nil {
		return nil, err
	}
	return r, b.together(ctx, func() error { return b.code.load(t, m, r.put) })
}

// scaler returns the kernel that multiplies.
func (b *backend) scaler(ctx context.Context, t cuda.Thread, d colligo.DType) (cuda.Function, error) {
	if f := b.code.scale[d]; f != 0 {
		return f, nil
	}
	m, err := kernels.UnaryModule(d)
	if err != nil {
		return 0, err
	}
	err = b.together(ctx, func() error {
		return b.code.load(t, m, func(name string, f cuda.Function) {
			if name == kernels.Scale {
				b.code.scale[d] = f
			}
		})
	})
	return b.code.scale[d], err
}

// together loads code while no rank enqueues anything: loading can wait for the device with a lock of the process held,
// and then a rank could not enqueue what the device is waiting for.
func (b *backend) together(ctx context.Context, load func() error) error {
	if b.size > 1 {
		if err := b.group.Barrier(ctx); err != nil {
			return fmt.Errorf("before loading code: %w", err)
		}
	}
	if err := load(); err != nil {
		return err
	}
	if b.size > 1 {
		if err := b.group.Barrier(ctx); err != nil {
			return fmt.Errorf("after loading code: %w", err)
		}
	}
	return nil
}
