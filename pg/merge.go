package pg

import (
	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// mergeLimit is the bytes up to which operations of a block share a plan: beyond it copying costs more than waiting once
// for each saves. It decides what goes over the wire, and must be the same on all ranks.
const mergeLimit = 256 << 10

// merge puts operations of a block that follow one another together where that is faster. It looks only at what is the same on
// all ranks.
func (g *Group) merge(rs []request) []request {
	var out []request
	for i := 0; i < len(rs); {
		j, bytes := i+1, rs[i].volume()
		for j < len(rs) && rs[i].joins(&rs[j]) && bytes+rs[j].volume() <= mergeLimit {
			bytes += rs[j].volume()
			j++
		}
		if j == i+1 {
			out = append(out, rs[i])
		} else {
			out = append(out, g.together(rs[i:j]))
		}
		i = j
	}
	return out
}

// joins reports whether two operations can share a plan.
func (r *request) joins(o *request) bool {
	switch r.coll {
	case plan.AllReduce, plan.Broadcast, plan.AllGather, plan.ReduceScatter:
	default:
		return false
	}
	return r.coll == o.coll && r.dtype == o.dtype && r.root == o.root && r.counts == nil && o.counts == nil &&
		r.op.Kind() == o.op.Kind() && r.op.Kind() != colligo.KindPremulSum // factors may differ between ranks
}

// member is what an operation that stands for several has to know of each: the request's fields of these names.
type member struct {
	count     int
	in, out   []byte
	ins, outs []colligo.Tensor
}

// together makes one operation of several.
func (g *Group) together(rs []request) request {
	all := rs[0]
	all.in, all.out, all.ins, all.outs, all.room = nil, nil, nil, nil, &g.staging
	all.src, all.dst = colligo.Tensor{}, colligo.Tensor{}
	all.members, all.count = make([]member, 0, len(rs)), 0
	for i := range all.keep {
		all.keep[i] = make([]colligo.Tensor, 0, len(rs))
	}
	for i := range rs {
		r := &rs[i]
		all.count += r.count
		var room [1]colligo.Tensor
		all.keep[0] = append(all.keep[0], r.inputs(&room)...)
		all.keep[1] = append(all.keep[1], r.outputs(&room)...)
		if r.members != nil {
			all.members = append(all.members, r.members...)
		} else {
			all.members = append(all.members, member{r.count, r.in, r.out, r.ins, r.outs})
		}
	}
	all.name()
	return all
}

// name says what the flight recorder calls it.
func (r *request) name() {
	switch r.coll {
	case plan.AllReduce:
		r.as(OpAllReduceCoalesced)
	case plan.AllGather:
		r.title = "nccl:all_gather_into_tensor_coalesced"
		r.as(OpCoalesced)
	case plan.ReduceScatter:
		r.title = "nccl:reduce_scatter_tensor_coalesced"
		r.as(OpCoalesced)
	}
}

// pack stages what is not contiguous.
func (m *member) pack(inPlace bool) {
	if m.ins != nil {
		m.in = gatherTensors(m.ins)
	}
	if m.outs != nil && inPlace {
		m.out = m.in
	} else if m.outs != nil {
		m.out = make([]byte, sizeOf(m.outs))
	}
}

// packMembers lays the inputs one after the other, for each rank if there is one for each.
func (r *request) packMembers() {
	ins, outs, inPlace := 0, 0, r.coll == plan.AllReduce
	for i := range r.members {
		m := &r.members[i]
		m.pack(inPlace)
		ins, outs = ins+len(m.in), outs+len(m.out)
	}
	if inPlace {
		r.in = r.staging(ins)
		r.out = r.in
	} else {
		room := r.staging(ins + outs)
		r.in, r.out = room[:ins:ins], room[ins:]
	}
	if ins > 0 {
		r.eachMember(r.in, plan.ReduceScatter, func(flat []byte, m *member, from, to int) { copy(flat, m.in[from:to]) })
	}
}

// staging returns n bytes for packed tensors: the group's, for only one collective is packed at a time, or if it is a large
// one its own.
func (r *request) staging(n int) []byte {
	if r.room == nil || n > 2*mergeLimit {
		return make([]byte, n)
	}
	if len(*r.room) < n {
		*r.room = make([]byte, 2*mergeLimit)
	}
	return (*r.room)[:n:n]
}

// unpackMembers brings the results to their tensors.
func (r *request) unpackMembers() {
	if len(r.out) > 0 {
		r.eachMember(r.out, plan.AllGather, func(flat []byte, m *member, from, to int) { copy(m.out[from:to], flat) })
	}
	for _, m := range r.members {
		scatterTensors(m.outs, m.out)
	}
}

// eachMember calls f for every member with its place in a flat buffer, and where that is in the member's own. For the given
// collective the buffer holds all members for each rank.
func (r *request) eachMember(flat []byte, split plan.Coll, f func(flat []byte, m *member, from, to int)) {
	copies := 1
	if r.coll == split {
		copies = r.size
	}
	for c := range copies {
		for i := range r.members {
			m := &r.members[i]
			n := m.count * r.elem
			f(flat[:n:n], m, c*n, (c+1)*n)
			flat = flat[n:]
		}
	}
}
