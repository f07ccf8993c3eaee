package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// code is the kernels that are on the device.
type code struct {
	log        *slog.Logger
	ahead      bool // kernels are launched ahead
	repeats    repeats
	modules    []cuda.Module
	move       moves
	reduce     map[reduction]*reducers
	dirty      bool      // tiles or a ring have been where slots of Fused are cleared
	graphDirty bool      // a graph that may be replayed at any time has tiles or a ring in it
	last       reduction // asked for last, and its kernels
	lastOf     *reducers
	scale      map[colligo.DType]cuda.Function
}

// moves are the entry points that know no element type.
type moves struct {
	copy, fill                                      kernel
	exchangeLL, exchangeLLEven                      kernel
	exchangeTiles, exchangeRotation, exchangeDirect kernel
	broadcastLL, broadcastLL128, broadcastSentinel  kernel
	broadcastChain, moveFused                       kernel
	exchangeEager, rendezvous, sendRecv             kernel
}

// put stores an entry point.
func (m *moves) put(name string, k kernel) {
	switch name {
	case ptx.CopyBytes:
		m.copy = k
	case ptx.FillLines:
		m.fill = k
	case ptx.ExchangeLL:
		m.exchangeLL = k
	case ptx.ExchangeLLEven:
		m.exchangeLLEven = k
	case ptx.ExchangeTiles:
		m.exchangeTiles = k
	case ptx.ExchangeRotation:
		m.exchangeRotation = k
	case ptx.ExchangeDirect:
		m.exchangeDirect = k
	case ptx.BroadcastLL:
		m.broadcastLL = k
	case ptx.BroadcastChain:
		m.broadcastChain = k
	case ptx.BroadcastLL128:
		m.broadcastLL128 = k
	case ptx.BroadcastSentinel:
		m.broadcastSentinel = k
	case ptx.MoveFused:
		m.moveFused = k
	case ptx.ExchangeEager:
		m.exchangeEager = k
	case ptx.Rendezvous:
		m.rendezvous = k
	case ptx.SendRecv:
		m.sendRecv = k
	}
}

// reduction is a kind of reduction on an element type.
type reduction struct {
	dtype colligo.DType
	kind  colligo.OpKind
}

// reducers are the entry points of a reduction; those of families that were not needed are 0.
type reducers struct {
	two                                   kernel
	ll, llTwoShot                         kernel
	scatterLL, scatterLLEven              kernel
	tiles, scatterTiles                   kernel
	ll128, ll128TwoShot, sentinel, direct kernel
	fused                                 kernel
}

func (r *reducers) has(f ptx.Family) bool {
	switch f {
	case ptx.LocalFamily:
		return r.two.Function != 0
	case ptx.LLFamily:
		return r.ll.Function != 0
	case ptx.LL128Family:
		return r.ll128.Function != 0
	case ptx.SentinelFamily:
		return r.sentinel.Function != 0
	case ptx.FusedFamily:
		return r.fused.Function != 0
	case ptx.DirectFamily:
		return r.direct.Function != 0
	}
	return r.tiles.Function != 0
}

// put stores an entry point.
func (r *reducers) put(name string, k kernel) {
	switch name {
	case ptx.ReduceTwo:
		r.two = k
	case ptx.AllReduceLL:
		r.ll = k
	case ptx.AllReduceLLTwoShot:
		r.llTwoShot = k
	case ptx.ReduceScatterLL:
		r.scatterLL = k
	case ptx.ReduceScatterLLEven:
		r.scatterLLEven = k
	case ptx.AllReduceTiles:
		r.tiles = k
	case ptx.ReduceScatterTiles:
		r.scatterTiles = k
	case ptx.AllReduceLL128:
		r.ll128 = k
	case ptx.AllReduceLL128TwoShot:
		r.ll128TwoShot = k
	case ptx.AllReduceSentinel:
		r.sentinel = k
	case ptx.AllReduceFused:
		r.fused = k
	case ptx.AllReduceDirect:
		r.direct = k
	}
}

// load puts a module on the device and hands its entry points to put.
func (c *code) load(t cuda.Thread, m ptx.Module, put func(name string, k kernel)) error {
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

func (c *code) compile(t cuda.Thread, m ptx.Module, source []byte, put func(name string, k kernel)) error {
	mod, err := t.LoadModule(m.Name(), source)
	if err != nil {
		return c.rejected(t, err)
	}
	c.modules = append(c.modules, mod)
	for _, e := range m.Entries() {
		f, err := t.Function(mod, e.Name)
		if err != nil {
			return fmt.Errorf("module %s: %w", m.Name(), err)
		}
		k, err := c.repeats.kernel(t, f, e.Args)
		if err != nil {
			return fmt.Errorf("module %s: %s: %w", m.Name(), e.Name, err)
		}
		k.dirties = ptx.UsesTiles(e.Name)
		put(e.Name, k)
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
	return c.load(t, ptx.MoveModule(), c.move.put)
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
func (b *backend) reducers(ctx context.Context, t cuda.Thread, d colligo.DType, k colligo.OpKind, f ptx.Family) (*reducers, error) {
	what := reduction{d, k}
	if r := b.code.lastOf; r != nil && b.code.last == what && r.has(f) {
		return r, nil
	}
	r := b.code.reduce[what]
	if r == nil {
		r = &reducers{}
		b.code.reduce[what] = r
	}
	b.code.last, b.code.lastOf = what, r
	if r.has(f) {
		return r, nil
	}
	m, err := ptx.ReduceModule(d, k, f)
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
	m, err := ptx.UnaryModule(d)
	if err != nil {
		return 0, err
	}
	err = b.together(ctx, func() error {
		return b.code.load(t, m, func(name string, k kernel) {
			if name == ptx.Scale {
				b.code.scale[d] = k.Function
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
