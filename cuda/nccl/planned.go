package nccl

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/devmem"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	"github.com/colligo-go/colligo/cuda/internal/tenants"
	"github.com/colligo-go/colligo/kernels"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg/backend"
	"github.com/colligo-go/colligo/plan"
	"github.com/colligo-go/colligo/ring"
	"github.com/colligo-go/colligo/tree"
)

// The planners of Options.Plans.
const (
	PlansRing = "ring"
	PlansTree = "tree"
)

// planners has for each name the planners of the collectives on tensors that are not lists.
var planners = map[string]map[plan.Coll]plan.Planner{
	PlansRing: {plan.AllReduce: ring.AllReduce, plan.Broadcast: ring.Broadcast, plan.Reduce: ring.Reduce, plan.AllGather: ring.AllGather,
		plan.ReduceScatter: ring.ReduceScatter, plan.AllToAll: ring.AllToAll},
	PlansTree: {plan.AllReduce: tree.DoubleTreeAllReduce, plan.Broadcast: tree.DoubleTreeBroadcast, plan.Reduce: tree.DoubleTreeReduce,
		plan.AllGather: tree.DoublingAllGather, plan.ReduceScatter: tree.HalvingReduceScatter},
}

// Plans reports whether the planners of a name plan a collective on tensors that are not lists.
func Plans(name string, c plan.Coll) bool { return planners[name][c] != nil }

// planChunk is the bytes of a chunk of a plan. A group of calls costs NCCL some 10 µs, in which a link moves about as much.
const planChunk = 4 << 20

// planner returns the planner of a call, nil if NCCL's own algorithm carries it out. No step may wait for another within a block.
func (b *ncclBackend) planner(r backend.Reduction) plan.Planner {
	if b.options.Plans == "" || r.InBlock || r.Lists {
		return nil
	}
	return planners[b.options.Plans][r.Coll]
}

// checkPlans refuses a name that no planners have.
func (o *Options) checkPlans() error {
	if o.Plans != "" && planners[o.Plans] == nil {
		return fmt.Errorf("nccl: no plans called %q: there are %s and %s", o.Plans, PlansRing, PlansTree)
	}
	return nil
}

// planRun carries out a plan on one stream, step by step:
//
//  1. The input is multiplied into scratch, if the reduction has a factor.
//  2. A group sends the step's source and receives what arrives: in place, or in a slot if it is to be reduced.
//  3. A kernel reduces the slot into its place.
//
// One lane needs no other order than the stream's, and a slot is emptied before the next group fills it. Plans are right on links
// without buffers (package plan, invariant 2), so groups that wait for one another end.
type planRun struct {
	*ncclBackend
	t       cuda.Thread
	s       cuda.Stream
	dtype   colligo.DType
	at      [3]cuda.Pointer // by plan.Buf
	slot    cuda.Pointer    // for what arrives and is to be reduced
	fold    cuda.Function
	divisor uint32
}

// planned enqueues a call as a plan.
func (b *ncclBackend) planned(t cuda.Thread, c *backend.Call, shape plan.Shape, planner plan.Planner, s cuda.Stream) error {
	shape.Elem = c.DType.Size()
	shape.Chunk = shape.ChunkLen(planChunk)
	p, err := planner(shape)
	if err != nil {
		return err
	}
	r := &planRun{ncclBackend: b, t: t, s: s, dtype: c.DType}
	if err := r.lay(c, p); err != nil {
		return err
	}
	for _, steps := range p.Lanes {
		for i := range steps {
			if err := r.step(&steps[i]); err != nil {
				return fmt.Errorf("step %d of %d of the %s: %w", i+1, len(steps), p.Algo, err)
			}
		}
	}
	return nil
}

// lay takes the plan's memory, and loads its kernels.
func (r *planRun) lay(c *backend.Call, p *plan.Plan) (err error) {
	elem, slot := c.DType.Size(), 0
	for _, steps := range p.Lanes {
		for i := range steps {
			if steps[i].Reduce {
				slot = max(slot, steps[i].Dst.Len*elem)
			}
		}
	}
	own := aligned(p.Scratch * elem)
	need, factor, factorAt, scales := own+aligned(slot), 0.0, cuda.Pointer(0), false
	in := p.Shape.Len(plan.In) * elem
	if c.Coll.Reduces() {
		if factor, factorAt, scales, err = r.factor(c); err != nil {
			return err
		}
		if r.fold, err = r.kernels.fold(r.t, c.DType, c.Op.Kind()); err != nil {
			return err
		}
	}
	if scales {
		need += in
	}
	memory, err := r.scratch.take(r.t, need, r.s)
	if err != nil {
		return err
	}
	r.at = [3]cuda.Pointer{plan.In: devmem.Address(c.In), plan.Out: devmem.Address(c.Out), plan.Scratch: memory}
	r.slot = memory + cuda.Pointer(own)
	if !scales || in == 0 {
		return nil
	}
	a := ptx.UnaryArgs{Out: uint64(r.slot) + uint64(aligned(slot)), In: uint64(r.at[plan.In]), Count: uint64(in / c.DType.Real().Size()),
		Factor: factor, FactorAt: uint64(factorAt)}
	f, err := r.kernels.scale(r.t, c.DType)
	if err != nil {
		return err
	}
	r.at[plan.In] = cuda.Pointer(a.Out)
	return r.t.Launch(f, planGrid(in), unsafe.Pointer(&a), r.s)
}

// factor returns the number by which inputs are multiplied, if they are: that of a premultiplied sum, or of an average of floating point
// numbers. Averages of whole numbers are divided in the end.
func (r *planRun) factor(c *backend.Call) (factor float64, at cuda.Pointer, scales bool, err error) {
	switch c.Op.Kind() {
	case colligo.KindAvg:
		k, err := kernels.Lookup(c.DType, colligo.KindAvg)
		if err != nil {
			return 0, 0, false, err
		}
		if factor = k.Weight(r.size); factor == 1 {
			r.divisor = uint32(r.size)
			return 0, 0, false, nil
		}
		return factor, 0, true, nil
	case colligo.KindPremulSum:
		factor, by := c.Op.Factor()
		if by == nil {
			return factor, 0, true, nil
		}
		if by.Device().Kind != colligo.CPU {
			return 0, devmem.Address(*by), true, nil
		}
		factor, err := kernels.Scalar(*by)
		return factor, 0, true, err
	}
	return 0, 0, false, nil
}

// step enqueues one step.
func (r *planRun) step(st *plan.Step) error {
	if st.Local(r.rank) {
		if st.Reduce {
			return r.reduceTwo(st, r.place(st.Src))
		}
		return r.copy(r.place(st.Dst), r.place(st.Src), st.Dst.Len*r.dtype.Size())
	}
	to, n := r.place(st.Dst), 0
	if st.Reduce {
		to = r.slot
	}
	err := r.main.Group(func() error {
		if st.To != plan.None && st.Src.Len > 0 {
			n++
			if err := r.main.Send(r.place(st.Src), st.Src.Len, r.dtype, st.To, r.s); err != nil {
				return err
			}
		}
		if st.From != plan.None && st.Dst.Len > 0 {
			n++
			return r.main.Recv(to, st.Dst.Len, r.dtype, st.From, r.s)
		}
		return nil
	})
	if err == nil && st.Reduce {
		err = r.reduceTwo(st, r.slot)
	}
	if err != nil {
		return err
	}
	return r.Throttle(r.t, r.s, n+1)
}

// place returns where a span begins.
func (r *planRun) place(s plan.Span) cuda.Pointer {
	return r.at[s.Buf] + cuda.Pointer(s.Off*r.dtype.Size())
}

// copy enqueues a copy, unless it is one to itself.
func (r *planRun) copy(to, from cuda.Pointer, bytes int) error {
	if bytes == 0 || to == from {
		return nil
	}
	return r.t.Copy(to, from, bytes, r.s)
}

// reduceTwo enqueues Dst = Acc op what has arrived. The result of the last step is divided if it is an average of whole numbers.
func (r *planRun) reduceTwo(st *plan.Step, arrived cuda.Pointer) error {
	bytes := st.Dst.Len * r.dtype.Size()
	if bytes == 0 {
		return nil
	}
	a := ptx.ReduceArgs{Out: uint64(r.place(st.Dst)), Bytes: uint64(bytes), Sources: 2, Divisor: r.divisor, Partial: 1}
	a.In[0], a.In[1] = uint64(r.place(st.Acc)), uint64(arrived)
	if st.Last {
		a.Partial = 0
	}
	return r.t.Launch(r.fold, planGrid(bytes), unsafe.Pointer(&a), r.s)
}

// aligned rounds bytes up, so that kernels find whole lines.
func aligned(bytes int) int { return (bytes + 255) &^ 255 }

// planGrid is for kernels that touch this device only.
func planGrid(bytes int) cuda.Grid {
	return cuda.Grid{Blocks: uint32(min(bytes/(512*64)+1, 64)), Threads: 512}
}

// planKernels are the kernels that plans need, loaded when a call first needs them.
type planKernels struct {
	tenant    *tenants.Tenant
	modules   []*tenants.Module
	functions map[string]cuda.Function
}

// fold returns the kernel that reduces two sources.
func (k *planKernels) fold(t cuda.Thread, d colligo.DType, kind colligo.OpKind) (cuda.Function, error) {
	m, err := ptx.ReduceModule(d, kind, ptx.LocalFamily)
	if err != nil {
		return 0, err
	}
	return k.load(t, m, ptx.ReduceTwo)
}

// scale returns the kernel that multiplies.
func (k *planKernels) scale(t cuda.Thread, d colligo.DType) (cuda.Function, error) {
	m, err := ptx.UnaryModule(d)
	if err != nil {
		return 0, err
	}
	return k.load(t, m, ptx.Scale)
}

func (k *planKernels) load(t cuda.Thread, m ptx.Module, entry string) (f cuda.Function, err error) {
	name := m.Name() + " " + entry
	if f, ok := k.functions[name]; ok {
		return f, nil
	}
	source, err := m.PTX()
	if err != nil {
		return 0, err
	}
	entries := m.Entries()
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name
	}
	var module *tenants.Module
	err = streamorder.Relaxed(t, func() error {
		module, err = k.tenant.Module(t, m.Name(), source, names)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("module %s: %w", m.Name(), err)
	}
	k.modules, f = append(k.modules, module), module.Function(entry)
	if k.functions == nil {
		k.functions = map[string]cuda.Function{}
	}
	k.functions[name] = f
	return f, nil
}

// free unloads the modules.
func (k *planKernels) free(t cuda.Thread) error {
	var errs []error
	for _, m := range k.modules {
		errs = append(errs, m.Drop(t))
	}
	*k = planKernels{}
	return errors.Join(errs...)
}
