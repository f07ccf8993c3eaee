package cudasim

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
)

// A Model is a model kernel: it does in Go what an entry point does on a device. It runs as a coroutine. It must not call the driver's
// table or the Sim, nor block on anything but Yield and Poll.
type Model func(*Launch)

type kernel struct {
	name  string
	args  int
	model Model
}

// A kernelKey is an entry point, of one image or of any.
type kernelKey struct {
	image imageSum
	name  string
}

// Register makes model run for the entry points called name in every image without a model kernel of its own. The entry
// point's parameter has args bytes. Functions that are already loaded keep their model kernels.
func (s *Sim) Register(name string, args uintptr, model Model) {
	s.register(kernelKey{name: name}, args, model)
}

// An EntryPoint is what Register takes: a name, the bytes of the parameter and the model kernel.
type EntryPoint struct {
	Name  string
	Args  uintptr
	Model Model
}

// RegisterImage makes model kernels run for entry points of one image only.
func (s *Sim) RegisterImage(image []byte, entries ...EntryPoint) {
	sum := sumOf(image)
	for _, e := range entries {
		s.register(kernelKey{sum, e.Name}, e.Args, e.Model)
	}
}

func (s *Sim) register(k kernelKey, args uintptr, model Model) {
	s.lock()
	defer s.unlock()
	s.kernels[k] = &kernel{k.name, int(args), model}
}

type grid struct{ blocks, threads, shared uint32 }

// A Launch is one launch of a kernel. Its own Block stands for the whole grid, with index -1.
type Launch struct {
	*Block
	Name   string
	Grid   uint32 // blocks
	Shared uint32 // bytes of dynamic shared memory of a block
	Params []byte // the parameter, copied when the kernel was launched
	crew   *crew
}

// Args returns the parameter of a launch as the struct it is.
func Args[T any](l *Launch) *T {
	var t T
	if n := int(unsafe.Sizeof(t)); n != len(l.Params) {
		panic(fmt.Sprintf("cudasim: %s takes %d bytes, not %d", l.Name, len(l.Params), n))
	}
	return (*T)(unsafe.Pointer(&l.Params[0]))
}

// A Block is one actor of a kernel: its threads act one after another. Addresses are those that the process's devices use.
type Block struct {
	Index   int    // in the grid
	Team    int    // in the block, 0 but in Teams
	Threads uint32 // of the block
	barrier *teamBarrier
	task    *blockTask
	before  *stamp // of the work that AwaitBefore waits for, nil if the kernel overlaps nothing
}

// Each runs f for every block of the grid, each as its own coroutine and its own actor, and returns when all are done.
// A model kernel that does not call Each works for the whole grid as one actor.
func (l *Launch) Each(f func(*Block)) { l.Teams(1, f) }

// Teams models blocks whose warps do different things at once. Each of the n teams of a block runs f as a coroutine and
// actor of its own. The teams of a block meet by Sync.
func (l *Launch) Teams(n int, f func(*Block)) {
	parent := l.task
	s, o := parent.sim, parent.op
	actors := make([]*actor, int(l.Grid)*n)
	for i := range actors {
		actors[i] = s.block(l.crew, i)
	}
	parent.actor.fork(actors)
	parent.children = len(actors)
	var m *teamBarrier
	for i, a := range actors {
		if i%n == 0 {
			m = &teamBarrier{teams: n}
		}
		b := &Block{Index: i / n, Team: i % n, Threads: l.Threads, barrier: m, before: l.before}
		b.task = s.newTask(o, a, b.Index, func() { f(b) })
		b.task.parent = parent
		if b.Team == 0 {
			b.task.threads = int(l.Threads)
		}
		d := s.devices[o.device]
		d.waiting = append(d.waiting, b.task)
	}
	s.admit(s.devices[o.device])
	if parent.children > 0 {
		parent.pause()
	}
	parent.actor.fence()
}

// A teamBarrier is where the teams of a block wait for one another, with the progress that they have posted.
type teamBarrier struct {
	teams    int
	come     []*blockTask
	progress map[int]*teamProgress
}

// teamProgress is the counts that a team has posted, one after the other, and the block tasks that wait for more.
type teamProgress struct {
	counts  []uint32
	after   []*stamp
	waiting []*blockTask
}

func (m *teamBarrier) of(team int) *teamProgress {
	if m.progress == nil {
		m.progress = map[int]*teamProgress{}
	}
	if m.progress[team] == nil {
		m.progress[team] = &teamProgress{}
	}
	return m.progress[team]
}

// PostProgress tells the other teams of the block how far this team has come, by a barrier and then a word in shared memory.
//
//go:norace
func (b *Block) PostProgress(count uint32) {
	w, st := b.barrier.of(b.Team), b.task
	w.counts, w.after = append(w.counts, count), append(w.after, st.actor.release())
	for _, c := range w.waiting {
		st.sim.schedule(c)
	}
	w.waiting = nil
	st.breathe()
}

// AwaitProgress waits until a team has posted count or more. It is ordered after all that the team had done when it first posted so much.
//
//go:norace
func (b *Block) AwaitProgress(team int, count uint32) {
	w, st := b.barrier.of(team), b.task
	enough := func(c uint32) bool { return c >= count }
	for count > 0 && !slices.ContainsFunc(w.counts, enough) {
		w.waiting = append(w.waiting, st)
		st.pause()
	}
	if count > 0 {
		st.actor.join(w.after[slices.IndexFunc(w.counts, enough)])
	}
}

// Sync waits until all teams of the block have called it: bar.sync. Each then comes after all that the others have done.
//
//go:norace
func (b *Block) Sync() {
	m, st := b.barrier, b.task
	m.come = append(m.come, st)
	if len(m.come) < m.teams {
		st.pause()
		return
	}
	var all []*stamp
	for _, c := range m.come {
		all = append(all, c.actor.release())
	}
	for _, c := range m.come {
		for _, s := range all {
			c.actor.join(s)
		}
		if c != st {
			st.sim.schedule(c)
		}
	}
	m.come = nil
}

// admit lets blocks begin, in the order of their launches, as long as the device has room for their threads.
//
//go:norace
func (s *Sim) admit(d *device) {
	for len(d.waiting) > 0 {
		st := d.waiting[0]
		if !st.ended && d.threads > 0 && d.threads+st.threads > s.attribute(cuda.MultiprocessorCount)*threadsPerMultiprocessor {
			return
		}
		d.waiting[0] = nil // the array lives on
		d.waiting = d.waiting[1:]
		if !st.ended {
			d.threads += st.threads
			st.resident = true
			s.schedule(st)
		}
	}
}

const threadsPerMultiprocessor = 2048

func (c *call) launchKernel(h cuda.Function, g grid, st *stream, args unsafe.Pointer, ahead bool) cuda.Result {
	f := c.process.functions[h]
	switch {
	case f == nil || f.module.context != st.context || st.context != c.context:
		return cuda.InvalidHandle
	case g.blocks == 0 || g.threads == 0 || g.threads > 1024 || args == nil:
		return cuda.InvalidValue
	}
	if st.capture == nil {
		if r := c.load(f); r != cuda.Success {
			return r
		}
	}
	return c.simple(st, "kernel "+f.kernel.name, f.body(g, args, ahead))
}

// body returns the operation of a launch.
func (f *function) body(g grid, args unsafe.Pointer, ahead bool) body {
	params := make([]byte, roundUp(f.kernel.args, 8))[:f.kernel.args]
	copy(params, unsafe.Slice((*byte)(args), f.kernel.args))
	return func(s *Sim, o *op) status {
		l := &Launch{Block: &Block{Index: -1, Threads: g.threads}, Name: f.kernel.name, Grid: g.blocks, Shared: g.shared,
			Params: slices.Clone(params)}
		l.task = s.newTask(o, s.lead(o, l, ahead), -1, func() { f.kernel.model(l) })
		s.schedule(l.task)
		return going
	}
}

// lead returns the actor of a launch. A launch that overlaps the kernel before it knows all that comes before that kernel. It waits for
// that kernel by AwaitBefore. Behind any other operation a launch overlaps nothing, as on a device.
func (s *Sim) lead(o *op, l *Launch, ahead bool) *actor {
	q := o.queue
	q.actor.fence()
	before := q.actor.release()
	if !ahead || o.early == nil {
		q.early, l.crew = before, &q.crews[0]
		return &q.actor
	}
	q.crew = 1 + q.crew%2
	q.early, l.crew, l.before = o.early, &q.crews[q.crew], before
	if l.crew.lead == nil {
		a := s.newActor()
		l.crew.lead = &a
	}
	a := l.crew.lead
	a.replace(o.in.freeze())
	a.join(o.early)
	a.fence()
	return a
}

// AwaitBefore waits until all work before the kernel on its stream has ended: griddepcontrol.wait. If LaunchAhead has launched the kernel,
// its accesses before AwaitBefore are in no order with the kernel before it, though the simulator runs them later.
//
//go:norace
func (b *Block) AwaitBefore() {
	if b.before != nil {
		b.task.actor.follow(b.before)
		b.task.op.queue.early = b.before
	}
}
