package control

import (
	"sync"
	"sync/atomic"

	"github.com/colligo-go/colligo/pg/internal/diagnose"
	"github.com/colligo-go/colligo/transport"
)

// remembered is how many collectives back a rank can compare.
const remembered = 32

// Progress is how far this rank has come: what answers to progress queries tell. Each operation updates it, so it allocates
// nothing for a collective.
type Progress struct {
	completed atomic.Uint64 // the last collective on the CPU that is complete

	mu       sync.Mutex
	n        uint64 // collectives entered so far
	calls    [remembered]transport.Call
	onDevice uint32 // bit i: calls[i] is a collective on a device that devices does not have yet
	devices  deviceProgress
	common   func(*transport.Call) (kind, count uint64) // what all ranks must have in common beside the number; nil: there is no history

	pairs        sync.Mutex
	sends, recvs pendingWith

	keeps atomic.Bool // see Keeps
}

// deviceProgress is how far this rank has come with collectives on devices, by their sequence numbers. A collective that was entered is in
// it only after catchUp. That is called before anybody reads it, and before Progress.calls forgets the collective. So a call has little to
// do, and catchUp has many collectives at once.
type deviceProgress struct {
	entered, completed uint64
	before             uint64                      // the collective on the CPU that was entered last before them
	history            uint64                      // hash of those entered
	untold             bool                        // the next rank is to be told of it
	n                  uint64                      // how many were entered
	past               *[pastHistories]pastHistory // made by the first
}

// Enter notes the collective that this rank enters.
func (p *Progress) Enter(call transport.Call) {
	*p.Slot() = call
	p.Entered()
}

// Slot returns memory in which the caller writes the collective that this rank enters. Entered must follow at once. A copy
// of the call, right after its fields of one byte have been written, would wait for them.
func (p *Progress) Slot() *transport.Call {
	p.mu.Lock()
	if p.onDevice&(1<<((p.n+1)%remembered)) != 0 { // the slot after this one, for the history needs the call before, too
		p.catchUp()
	}
	return &p.calls[p.n%remembered]
}

// Entered ends the entering that Slot began.
func (p *Progress) Entered() {
	p.n++
	p.mu.Unlock()
}

// EnteredOnDevice ends the entering of a collective on a device, which Slot began. It reports whether it is the first since the next rank
// was told of them.
func (p *Progress) EnteredOnDevice() (first bool) {
	p.onDevice |= 1 << (p.n % remembered)
	first, p.devices.untold = !p.devices.untold, true
	p.Entered()
	return first
}

// catchUp brings devices up to date. The caller holds p.mu.
func (p *Progress) catchUp() {
	for i := p.n - (remembered - 1); p.onDevice != 0; i++ {
		if bit := uint32(1) << (i % remembered); p.onDevice&bit != 0 {
			p.onDevice &^= bit
			p.devices.enter(p.calls[(i-1)%remembered].Seq, &p.calls[i%remembered], p.common)
		}
	}
}

// enter takes the next collective on a device, and the number of the collective before it on any.
func (d *deviceProgress) enter(before uint64, call *transport.Call, common func(*transport.Call) (kind, count uint64)) {
	if before != d.entered {
		d.before = before
	}
	d.entered = call.Seq
	if common == nil {
		return
	}
	kind, count := common(call)
	d.history = extend(d.history, call.Seq, kind, count)
	if d.past == nil {
		d.past = new([pastHistories]pastHistory)
	}
	d.past[d.n%pastHistories] = pastHistory{call.Seq, d.history}
	d.n++
}

// pastHistories is how many collectives on devices back a rank can compare their hash.
const pastHistories = 512

// pastHistory is the hash of the collectives on devices up to one of them.
type pastHistory struct{ seq, hash uint64 }

// extend returns the hash of a collective and of those before it, never 0. Words are what all ranks must have in common.
func extend(before uint64, words ...uint64) uint64 {
	h := before
	for _, word := range words {
		h = (h ^ word) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return max(h, 1)
}

// Keeps reports whether the channel keeps calls of peers until this rank has come so far.
func (p *Progress) Keeps() bool { return p.keeps.Load() }

// CompleteOnDevice notes the last collective on a device that is complete.
func (p *Progress) CompleteOnDevice(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices.completed = max(p.devices.completed, seq)
}

// done returns the last collective that is complete. Where one is under way, it is the last one of the same medium.
func (p *Progress) done() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.catchUp()
	d, onCPU := &p.devices, p.completed.Load()
	entered := p.calls[(p.n-1)%remembered].Seq
	if entered == d.entered {
		entered = d.before
	}
	switch {
	case entered > onCPU:
		return onCPU
	case d.entered > d.completed:
		return d.completed
	}
	return max(onCPU, d.completed)
}

// At returns the call with a sequence number, if it is remembered.
func (p *Progress) At(seq uint64) (transport.Call, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.callAt(seq)
}

// callAt returns a call as At does. The caller holds p.mu.
func (p *Progress) callAt(seq uint64) (transport.Call, bool) {
	for _, c := range p.calls {
		if c.Seq == seq && seq > 0 {
			return c, true
		}
	}
	return transport.Call{}, false
}

// newest returns the call entered last; its Seq is 0 if there was none.
func (p *Progress) newest() transport.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[(p.n-1)%remembered]
}

// Complete notes the last collective on the CPU that is complete.
func (p *Progress) Complete(seq uint64) { p.completed.Store(seq) }

// Begin counts a send or receive as pending.
func (p *Progress) Begin(send bool, peer int) {
	p.pairs.Lock()
	defer p.pairs.Unlock()
	by := p.of(send)
	for len(*by) <= peer+1 {
		*by = append(*by, 0)
	}
	(*by)[peer+1]++
}

// End takes back n times a Begin with the same arguments.
func (p *Progress) End(send bool, peer, n int) {
	p.pairs.Lock()
	defer p.pairs.Unlock()
	if by := *p.of(send); peer+1 < len(by) {
		by[peer+1] = max(by[peer+1]-n, 0)
	}
}

// pendingWith is how many messages are pending, by peer plus 1: a receive may be from any.
type pendingWith []int

func (p *Progress) of(send bool) *pendingWith {
	if send {
		return &p.sends
	}
	return &p.recvs
}

// pending returns the first peers of pending sends and receives, in ascending order.
func (p *Progress) pending() (sends, recvs []int) {
	p.pairs.Lock()
	defer p.pairs.Unlock()
	return p.sends.peers(), p.recvs.peers()
}

func (by pendingWith) peers() (peers []int) {
	for i, n := range by {
		if n > 0 && len(peers) < diagnose.MostNamed {
			peers = append(peers, i-1)
		}
	}
	return peers
}
