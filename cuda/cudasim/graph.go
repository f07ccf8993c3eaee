package cudasim

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
)

type graph struct {
	context *context
	nodes   []*node
}

// A graphExec runs its nodes in queues of its own. A node goes on in the queue of the first node that it follows, if no
// other does.
type graphExec struct {
	context *context
	nodes   []*node
	queue   []int   // by node
	after   [][]int // by node: indices of nodes
	queues  []*queue
	last    *op // launch: an executable graph never overlaps itself
}

func (c *call) graphInstantiate(h cuda.Graph) (cuda.GraphExec, cuda.Result) {
	g := c.process.graphs[h]
	if g == nil {
		return 0, cuda.InvalidValue
	}
	x := &graphExec{context: g.context, nodes: g.nodes}
	index := map[*node]int{}
	continued := map[int]bool{}
	for i, n := range g.nodes {
		index[n] = i
		q := -1
		var after []int
		for _, before := range n.after {
			j := index[before]
			after = append(after, j)
			if q < 0 && !continued[j] {
				q, continued[j] = x.queue[j], true
			}
		}
		if q < 0 {
			q = len(x.queues)
			x.queues = append(x.queues, &queue{actor: c.sim.newActor()})
		}
		x.queue, x.after = append(x.queue, q), append(x.after, after)
	}
	e := cuda.GraphExec(c.sim.handle())
	c.process.execs[e] = x
	return e, cuda.Success
}

func (c *call) graphLaunch(h cuda.GraphExec, st *stream) cuda.Result {
	x := c.process.execs[h]
	switch {
	case x == nil:
		return cuda.InvalidValue
	case st.capture != nil: // it would become a graph in a graph
		st.capture.broken = true
		return cuda.StreamCaptureUnsupported
	}
	now := *x // later changes are for later launches
	o, r := c.enqueue(st, "GraphLaunch", now.launch, x.last)
	if r == cuda.Success {
		x.last = o
	}
	return r
}

// launch is the body of a launch: it fills the queues, and the last of their operations completes it.
func (x *graphExec) launch(s *Sim, o *op) status {
	if len(x.nodes) == 0 {
		return finished
	}
	left := len(x.nodes)
	o.stop = func() {
		for _, q := range x.queues {
			s.abandon(q)
		}
	}
	o.inside = func() string {
		var heads []string
		for _, q := range x.queues {
			if len(q.ops) > 0 && q.ops[0].pending == 0 {
				heads = append(heads, q.ops[0].describe())
			}
		}
		return strings.Join(heads, ", ")
	}
	for _, q := range x.queues {
		q.early = nil
	}
	start := o.queue.actor.release()
	ops := make([]*op, len(x.nodes))
	for i, n := range x.nodes {
		p := &op{origin: inStream(n.origin, o), process: o.process, context: x.context, body: n.body}
		p.in.join(start)
		for _, j := range x.after[i] {
			if x.queue[j] != x.queue[i] { // the queue is an order already
				p.follow(ops[j])
			}
		}
		p.then = func() {
			o.queue.actor.join(p.out)
			if left--; left == 0 {
				s.complete(o)
			}
		}
		ops[i] = p
	}
	for i, p := range ops {
		s.push(x.queues[x.queue[i]], p)
	}
	return going
}

// inStream is a captured operation's origin, in the stream of the launch.
func inStream(n *origin, launch *op) *origin {
	return &origin{name: n.name + " (graph)", process: n.process, device: n.device, stream: launch.stream, pcs: n.pcs, launch: launch.origin}
}

// graphGetNodes returns the number of the only node.
func (c *call) graphGetNodes(h cuda.Graph) (cuda.GraphNode, cuda.Result) {
	g := c.process.graphs[h]
	if g == nil || len(g.nodes) != 1 {
		return 0, cuda.InvalidValue
	}
	return 1, cuda.Success
}

func (c *call) graphExecKernelNodeSetParams(e cuda.GraphExec, n cuda.GraphNode, h cuda.Function, g grid, args unsafe.Pointer) cuda.Result {
	x, f := c.process.execs[e], c.process.functions[h]
	switch {
	case x == nil || n != 1 || len(x.nodes) != 1:
		return cuda.InvalidValue
	case f == nil || f.module.context != x.context:
		return cuda.InvalidHandle
	case g.blocks == 0 || g.threads == 0 || g.threads > 1024 || args == nil:
		return cuda.InvalidValue
	}
	x.nodes = []*node{{x.nodes[0].origin, f.body(g, args, false), nil}}
	return cuda.Success
}

func (c *call) graphExecDestroy(h cuda.GraphExec) cuda.Result {
	if c.process.execs[h] == nil {
		return cuda.InvalidValue
	}
	delete(c.process.execs, h)
	return cuda.Success
}

func (c *call) graphDestroy(h cuda.Graph) cuda.Result {
	if c.process.graphs[h] == nil {
		return cuda.InvalidValue
	}
	delete(c.process.graphs, h)
	return cuda.Success
}

// forget drops the graphs of a context.
func (p *Process) forget(x *context) {
	for h, st := range p.streams {
		if st.context == x {
			delete(p.streams, h)
		}
	}
	for h, e := range p.events {
		if e.context == x {
			delete(p.events, h)
		}
	}
	for h, m := range p.modules {
		if m.context == x {
			delete(p.modules, h)
		}
	}
	for h, e := range p.execs {
		if e.context == x {
			delete(p.execs, h)
		}
	}
	for _, g := range slices.Clone(p.space) {
		if g.context == x {
			p.unmap(g)
		}
	}
}
