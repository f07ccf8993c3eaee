package peer

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/tenants"
	"github.com/colligo-go/colligo/kernels/ptx"
)

// code is the kernels that are on the device.
type code struct {
	log        *slog.Logger
	ahead      bool // kernels are launched ahead
	repeats    repeats
	tenant     *tenants.Tenant
	modules    []*tenants.Module
	moves      []kernel // by moveEntry
	folds      map[reduction][]kernel
	last       reduction // asked for last, and its kernels
	lastOf     []kernel
	scale      map[colligo.DType]cuda.Function
	dirty      bool // tiles or a ring have been where slots of a fused ring hold sentinels
	graphDirty bool // a graph that may be replayed at any time has tiles or a ring in it
}

// reduction is a kind of reduction on an element type.
type reduction struct {
	dtype colligo.DType
	kind  colligo.OpKind
}

// loadMoves loads the kernels that know no element type.
func (c *code) loadMoves(t cuda.Thread) error {
	c.folds, c.scale, c.moves = map[reduction][]kernel{}, map[colligo.DType]cuda.Function{}, make([]kernel, len(moveNames))
	return c.load(t, ptx.MoveModule(), putInto(c.moves, moveNames))
}

// loadFolds loads one module of the kernels of a reduction.
func (c *code) loadFolds(t cuda.Thread, of reduction, f ptx.Family) error {
	m, err := ptx.ReduceModule(of.dtype, of.kind, f)
	if err != nil {
		return err
	}
	if c.folds[of] == nil {
		c.folds[of] = make([]kernel, len(foldNames))
	}
	c.last, c.lastOf = of, c.folds[of]
	return c.load(t, m, putInto(c.lastOf, foldNames))
}

// loadScale loads the kernel that multiplies.
func (c *code) loadScale(t cuda.Thread, d colligo.DType) error {
	m, err := ptx.UnaryModule(d)
	if err != nil {
		return err
	}
	return c.load(t, m, func(name string, k kernel) {
		if name == ptx.Scale {
			c.scale[d] = k.Function
		}
	})
}

// putInto stores entry points at their places; those that no algorithm has declared are left out.
func putInto(kernels []kernel, names []string) func(name string, k kernel) {
	return func(name string, k kernel) {
		for i, n := range names {
			if n == name {
				kernels[i] = k
			}
		}
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
	entries := m.Entries()
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	mod, err := c.tenant.Module(t, m.Name(), source, names)
	if err != nil {
		return c.rejected(t, err)
	}
	c.modules = append(c.modules, mod)
	return c.repeats.making(t, func(s cuda.Stream) error {
		for _, e := range entries {
			k, err := c.repeats.kernel(t, mod.Function(e.Name), e.Args, s)
			if err != nil {
				return fmt.Errorf("module %s: %s: %w", m.Name(), e.Name, err)
			}
			k.dirties = ptx.UsesTiles(e.Name)
			put(e.Name, k)
		}
		return nil
	})
}

// rejected names the driver and the device that did not take a module.
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

func (c *code) unload(t cuda.Thread) error {
	errs := []error{c.repeats.free(t)}
	for _, m := range c.modules {
		errs = append(errs, m.Drop(t))
	}
	c.modules = nil
	return errors.Join(errs...)
}
