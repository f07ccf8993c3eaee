package ncclsim

import (
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/kernels"
)

// kind is what a call does.
type kind int

const (
	allReduce kind = iota
	reduce
	reduceScatter
	allGather
	broadcast
	send
	recv
)

// call is one call of one rank. Lengths are in bytes.
type call struct {
	comm      *comm
	kind      kind
	in, out   cuda.Pointer
	ins, outs int
	dtype     nccl.DType
	op        nccl.Op
	factor    factor
	root      int // or the peer
	stream    cuda.Stream

	number        uint64 // among the communicator's collectives, or the pair's messages
	input, output []byte // in pinned memory
	inAt, outAt   cuda.Pointer
	met           bool
}

// factor is that of a premultiplied sum; the zero value is none. One in device memory is copied to the host with the input.
type factor struct {
	given bool
	value float64
	at    cuda.Pointer
	bits  []byte
}

func newFactor(at unsafe.Pointer, d colligo.DType, residence int) (f factor, err error) {
	f.given = true
	if residence == 0 {
		f.at = cuda.Pointer(uintptr(at))
		return f, nil
	}
	f.value, err = kernels.Scalar(colligo.Raw(at, 1, d))
	return f, err
}

// scaled returns the input of a call times its factor.
func (x *call) scaled() ([]byte, error) {
	if !x.factor.given {
		return x.input, nil
	}
	by, d := x.factor.value, dtypes[x.dtype]
	if x.factor.at != 0 {
		var err error
		if by, err = kernels.Scalar(colligo.Bytes(x.factor.bits, d)); err != nil {
			return nil, err
		}
	}
	k, err := kernels.Lookup(d, colligo.KindPremulSum)
	if err != nil {
		return nil, err
	}
	out := make([]byte, len(x.input))
	k.Scale(out, x.input, by)
	return out, nil
}

// group is the calls between GroupStart and GroupEnd of one thread.
type group struct {
	depth int
	calls []*call
	made  []*comm // which wait for their peers in the end
}

func (s *Sim) groupStart() nccl.Result {
	at := cudasim.ThreadID()
	if s.groups[at] == nil {
		s.groups[at] = &group{}
	}
	s.groups[at].depth++
	return nccl.Success
}

func (s *Sim) groupEnd() nccl.Result {
	at := cudasim.ThreadID()
	g := s.groups[at]
	if g == nil {
		return nccl.InvalidUsage
	}
	if g.depth--; g.depth > 0 {
		return nccl.Success
	}
	delete(s.groups, at)
	for _, c := range g.made {
		s.complete(c)
	}
	var first *comm
	if len(g.calls) > 0 {
		first = g.calls[0].comm
	}
	if s.hang("ncclGroupEnd", first) {
		return nccl.InProgress
	}
	if first != nil && first.aborted {
		return nccl.InternalError
	}
	if r := s.launch(g.calls); r != nccl.Success {
		return r
	}
	result := nccl.Success
	for _, x := range g.calls {
		if r := x.comm.background(); r != nccl.Success {
			result = r
		}
	}
	return result
}

// submit takes a call: into the group that is open, or at once. The caller holds s.mu.
func (s *Sim) submit(x *call) nccl.Result {
	c := x.comm
	if c.progress > 0 || c.stuck { // the call before is not through
		return nccl.InvalidArgument
	}
	captured, err := s.captured(x)
	if err != nil {
		return nccl.UnhandledCudaError
	}
	at := x.lane()
	switch {
	case captured:
		c.captured[at]++
		s.captures[c.rank]++
		x.number = capturedBit | c.captured[at]<<32
	case x.kind == send:
		c.sends[x.root]++
		x.number = c.sends[x.root]
	case x.kind == recv:
		c.recvs[x.root]++
		x.number = c.recvs[x.root]
	default:
		c.collectives++
		x.number = c.collectives
	}
	if g := s.groups[cudasim.ThreadID()]; g != nil {
		g.calls = append(g.calls, x)
		return nccl.Success
	}
	if s.hang(Launch, c) {
		return nccl.InProgress
	}
	if c.aborted {
		return nccl.InternalError
	}
	if r := s.launch([]*call{x}); r != nccl.Success {
		return r
	}
	return c.background()
}

// lane returns the pair of ranks of a message. Collectives have one for all.
func (x *call) lane() lane {
	switch x.kind {
	case send:
		return lane{from: x.comm.rank, to: x.root}
	case recv:
		return lane{from: x.root, to: x.comm.rank}
	}
	return lane{from: -1, to: -1}
}

// background is the result of a launch. A communicator that does not block has to be asked for a while then.
func (c *comm) background() nccl.Result {
	if !c.nonBlocking {
		return nccl.Success
	}
	c.progress = progressing
	return nccl.InProgress
}

// Offsets in the pinned memory of a launch.
const (
	arrivedAt  = 0  // a word: the inputs are here
	computedAt = 64 // a word: the outputs are there
	dataAt     = 128
	alignment  = 64
)

// launch enqueues calls: those of one stream together. The caller holds s.mu.
func (s *Sim) launch(calls []*call) nccl.Result {
	type place struct { // devices have a default stream each, of one number
		device *cuda.Device
		stream cuda.Stream
	}
	var places []place
	of := func(x *call) place { return place{x.comm.device, x.stream} }
	for _, x := range calls {
		if !slices.Contains(places, of(x)) {
			places = append(places, of(x))
		}
	}
	for _, p := range places {
		on := slices.DeleteFunc(slices.Clone(calls), func(x *call) bool { return of(x) != p })
		if err := s.enqueue(on, p.stream); err != nil {
			return nccl.UnhandledCudaError
		}
	}
	return nccl.Success
}

// enqueue puts calls on a stream, and begins to carry them out. The caller holds s.mu.
func (s *Sim) enqueue(calls []*call, stream cuda.Stream) error {
	t, err := calls[0].comm.device.Enter()
	if err != nil {
		return err
	}
	defer t.Leave()
	page, err := s.page(t, calls)
	if err != nil {
		return err
	}
	at := dataAt
	take := func(n int) ([]byte, cuda.Pointer) {
		b, p := page.Bytes[at:at+n:at+n], page.Device+cuda.Pointer(at)
		at += up(n)
		return b, p
	}
	for _, x := range calls {
		x.input, x.inAt = take(x.ins)
		x.output, x.outAt = take(x.outs)
		if x.ins > 0 && err == nil {
			err = t.Copy(x.inAt, x.in, x.ins, stream)
		}
		if x.factor.at != 0 && err == nil {
			var to cuda.Pointer
			x.factor.bits, to = take(dtypes[x.dtype].Size())
			err = t.Copy(to, x.factor.at, len(x.factor.bits), stream)
		}
	}
	if err == nil {
		err = t.Write32(stream, page.Device+arrivedAt, 1)
	}
	if err == nil {
		err = t.Wait32(stream, page.Device+computedAt, 1)
	}
	captured := calls[0].number&capturedBit != 0
	if captured && err == nil { // for the next launch
		err = t.Write32(stream, page.Device+computedAt, 0)
	}
	for _, x := range calls {
		if x.outs > 0 && err == nil {
			err = t.Copy(x.out, x.outAt, x.outs, stream)
		}
	}
	switch {
	case err != nil:
	case captured:
		s.running.Go(func() { s.replay(calls, page) })
	default:
		s.running.Go(func() { s.carry(calls, page) })
	}
	return err
}

// page takes pinned memory for a launch. The caller holds s.mu.
func (s *Sim) page(t cuda.Thread, calls []*call) (*cuda.Host, error) {
	bytes := dataAt
	for _, x := range calls {
		bytes += up(x.ins) + up(x.outs) + alignment
	}
	before, err := t.ExchangeCaptureMode(cuda.CaptureRelaxed)
	if err != nil {
		return nil, err
	}
	page, err := t.AllocHost(bytes)
	if _, err2 := t.ExchangeCaptureMode(before); err == nil {
		err = err2
	}
	if err != nil {
		return nil, err
	}
	s.pages[t.Device] = append(s.pages[t.Device], page)
	clear(page.Bytes[:dataAt])
	return page, nil
}

func up(n int) int { return (n + alignment - 1) / alignment * alignment }

// carry waits for the inputs, has the calls meet those of the peers, and lets the stream go on. A call whose communicator is
// aborted waits for nobody.
func (s *Sim) carry(calls []*call, page *cuda.Host) {
	arrived, computed := (*uint32)(unsafe.Pointer(&page.Bytes[arrivedAt])), (*uint32)(unsafe.Pointer(&page.Bytes[computedAt]))
	for atomic.LoadUint32(arrived) == 0 && !s.gaveUp(calls) {
		time.Sleep(20 * time.Microsecond)
	}
	if atomic.LoadUint32(arrived) != 0 { // else the peers would take inputs that have not come
		s.meet(calls)
	}
	atomic.StoreUint32(computed, 1)
}

// meet publishes calls whose inputs have come, and waits until the calls of all peers have met them or one was aborted. Calls that
// were aborted before are not published (invariant 2).
func (s *Sim) meet(calls []*call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !anyAborted(calls) {
		for _, x := range calls {
			s.publish(x)
		}
		s.changed.Broadcast()
	}
	for !s.allMet(calls) && !anyAborted(calls) {
		s.changed.Wait()
	}
	for _, x := range calls {
		if !x.met { // its stream reads the page from here on, while a peer that comes later writes this call's output
			x.output = make([]byte, len(x.output))
		}
	}
}

func (s *Sim) gaveUp(calls []*call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return anyAborted(calls)
}

func anyAborted(calls []*call) bool {
	return slices.ContainsFunc(calls, func(x *call) bool { return x.comm.aborted || x.comm.released })
}

// publish lets the peers' calls see one. The caller holds s.mu.
func (s *Sim) publish(x *call) {
	c := x.comm
	switch x.kind {
	case send:
		m := c.message(lane{c.rank, x.root, x.number})
		m.data, m.sent = x.input, true
	case recv:
		c.message(lane{x.root, c.rank, x.number}).received = true
	default:
		m := c.world.collectives[x.number]
		if m == nil {
			m = &meeting{parts: make([]*call, c.world.size)}
			c.world.collectives[x.number] = m
		}
		m.parts[c.rank] = x
		if m.come++; m.come == len(m.parts) && alike(m.parts) {
			if err := compute(m.parts); err != nil {
				c.async = nccl.InvalidUsage
			}
			m.done = true
			delete(c.world.collectives, x.number)
			for _, p := range m.parts {
				p.met = true
			}
		}
	}
}

// alike reports whether the calls of a collective fit each other, apart from their roots. NCCL compares nothing: calls that do not fit may
// wait for each other until they are aborted. In a Sim they always wait.
func alike(parts []*call) bool {
	first := parts[0]
	return !slices.ContainsFunc(parts, func(x *call) bool {
		differs := x.kind != first.kind || x.dtype != first.dtype || x.outs != first.outs && x.kind != reduce
		differs = differs || x.op != first.op || x.factor.given != first.factor.given
		return differs || x.ins != first.ins && x.kind != broadcast
	})
}

// message returns what a message's ends meet in.
func (c *comm) message(at lane) *message {
	m := c.world.messages[at]
	if m == nil {
		m = &message{}
		c.world.messages[at] = m
	}
	return m
}

// allMet reports whether all calls have met those of the peers. A receive copies its message then. The caller holds s.mu.
func (s *Sim) allMet(calls []*call) bool {
	all := true
	for _, x := range calls {
		switch {
		case x.met:
		case x.kind == send:
			x.met = x.comm.message(lane{x.comm.rank, x.root, x.number}).received
		case x.kind == recv:
			x.receive(x.comm.message(lane{x.root, x.comm.rank, x.number}))
		}
		all = all && x.met
	}
	return all
}

// receive takes a message if it was sent.
func (x *call) receive(m *message) {
	if !m.sent {
		return
	}
	if len(m.data) != len(x.output) {
		x.comm.async = nccl.InvalidUsage
	}
	copy(x.output, m.data)
	x.met = true
}

// compute carries out a collective whose inputs are all here, in the order of the ranks.
func compute(parts []*call) error {
	switch first := parts[0]; first.kind {
	case allGather:
		for _, to := range parts {
			for r, from := range parts {
				copy(to.output[r*from.ins:], from.input)
			}
		}
	case broadcast:
		for _, to := range parts {
			copy(to.output, parts[first.root].input)
		}
	default:
		sum, err := fold(parts)
		if err != nil {
			return err
		}
		for r, to := range parts {
			from := sum
			if to.kind == reduceScatter {
				from = sum[r*to.outs:]
			}
			copy(to.output, from)
		}
	}
	return nil
}

// fold reduces the inputs.
func fold(parts []*call) ([]byte, error) {
	k, err := parts[0].kernel()
	if err != nil {
		return nil, err
	}
	sum := make([]byte, parts[0].ins)
	for r, p := range parts {
		if p.op == nccl.Avg && dtypes[p.dtype].Float() { // of whole ones NCCL divides the sum
			p.factor = factor{given: true, value: 1 / float64(len(parts))}
		}
		in, err := p.scaled()
		if err != nil {
			return nil, err
		}
		if r == 0 {
			copy(sum, in)
		} else {
			k.Reduce(sum, sum, in)
		}
	}
	k.Finish(sum, sum, len(parts))
	return sum, nil
}
