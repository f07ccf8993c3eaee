package gloo

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"github.com/colligo-go/colligo/transport/internal/peermem"
)

// Two ranks of this package on one host move long payloads without the connection: the receiver reads them in the sender's memory. That
// is one copy in place of two. They know each other by a mark in the addresses that they publish, at which ranks of PyTorch do not look.
//
//  1. A rank that can read a peer's token, whose address is in the mark, says so (opReads).
//  2. The sender writes a head with the payload's address (opRemote). Its caller keeps the payload.
//  3. The receiver reads the payload part by part, with the token after each. It believes no part without the token.
//  4. The receiver tells how many bytes it has read (opTaken). If that is all, the sender's caller may use its memory again. The receive
//     is not over before the connection has taken the message: no later call may come that writes it.
//  5. Else the system did not let it read, as in memory of a device driver. Then the sender writes the rest to the connection, and
//     leaves no payload in its place for this peer any more.
//  6. A rank that fails clears its token before its callers get their memory back.
//
// There is no token with TLS, for then the program wants what it sends encrypted.

// zeroCopyBytes is from where on a payload is worth the message that tells of its end.
const zeroCopyBytes = 256 << 10

// A mark lies in the part of an address that no family of addresses uses. It is a word that names it, the process, the address of the
// token, and the token.
const (
	markAt   = 64
	markSize = 24 + peermem.TokenBytes
	markWord = 0x7364616572676c63 // "clgreads"
)

// mark is zero where there is none.
type mark [markSize]byte

// markOf is this process's mark with a token, none without.
func markOf(own *peermem.Token) (m mark) {
	if own != nil {
		b := le.AppendUint64(m[:0], markWord)
		b = le.AppendUint64(b, uint64(os.Getpid()))
		b = le.AppendUint64(b, own.Address())
		copy(m[len(b):], own[:])
	}
	return m
}

// markIn returns the mark in an encoded address.
func markIn(b []byte) (m mark) {
	if le.Uint64(b[markAt:]) == markWord {
		m = mark(b[markAt:][:markSize])
	}
	return m
}

// process is the number of the process on its host.
func (m *mark) process() int { return int(int32(le.Uint64(m[8:]))) }

// here reports whether the mark is of this process, if it is of this host.
func (m *mark) here() bool { return m.process() == os.Getpid() }

// meet notes the mark of a peer, and tells the peer if this rank can read its memory.
func (p *pair) meet(m mark, here bool) {
	if p.ours = m != (mark{}); !p.ours || !here {
		return
	}
	p.memory = peermem.Open(m.process(), peermem.Token(m[24:]), le.Uint64(m[16:]))
	if p.memory != nil {
		p.queue(head{op: opReads})
	}
}

// said takes what only ranks of this package say.
func (p *pair) said(h head) error {
	if !p.ours {
		return fmt.Errorf("%w: opcode %d", ErrProtocol, uint64(h.op))
	}
	if h.op == opReads {
		p.reads = true
		return nil
	}
	s := p.offered(h.slot)
	if s == nil || !s.zeroCopy || h.n > s.n {
		return fmt.Errorf("%w: %d bytes taken on slot %#x, where none or fewer were offered", ErrProtocol, h.n, h.slot)
	}
	s.zeroCopy, s.took, s.sent = false, h.n, h.n
	if h.n == s.n {
		p.withdraw(s)
	} else {
		p.reads = false
	}
	return nil
}

// offered returns the send on a slot whose payload the peer is to read, or has not read whole; nil if there is none. Later ones on the slot
// wait for its end: the peer tells them apart by their order alone.
func (p *pair) offered(slot uint64) *Send {
	for _, s := range p.zeroCopies {
		if s.slot == slot {
			return s
		}
	}
	return nil
}

// withdraw takes a send out of those that the peer is to read.
func (p *pair) withdraw(s *Send) {
	p.zeroCopies = slices.DeleteFunc(p.zeroCopies, func(other *Send) bool { return other == s })
}

// zeroCopied reports whether the peer is to read a payload that the caller has whole.
func (p *pair) zeroCopied(s *Send, b []byte) bool {
	return p.reads && s.n >= zeroCopyBytes && len(b) == s.n
}

// sendZeroCopy puts the head of a payload into the queue. The payload stays where it is.
func (p *pair) sendZeroCopy(s *Send, b []byte) {
	s.zeroCopy = true
	p.zeroCopies = append(p.zeroCopies, s)
	p.out = head{opRemote, s.slot, s.n}.appendAt(p.out, peermem.Address(b))
}

// takeRemote notes where the payload of a receive lies.
func (p *pair) takeRemote(r *Receive, at uint64) error {
	if p.memory == nil {
		return fmt.Errorf("%w: %d bytes on slot %#x in memory that this rank has not said it can read", ErrProtocol, r.n, r.slot)
	}
	r.remote, r.at, r.looked = true, at, false
	p.remotes = append(p.remotes, r)
	return nil
}

// fetch reads the next bytes of a payload in the peer's memory, into dst or if that is nil into memory of the pair. With the last bytes it
// tells the peer. It reports false if the peer has to write them.
func (p *pair) fetch(r *Receive, dst []byte, n int) ([]byte, bool) {
	own := dst == nil
	if own {
		if p.part == nil {
			words := make([]uint64, partBytes/8) // so that elements are aligned
			p.part = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), partBytes)
		}
		dst = p.part[:n]
	}
	if !p.copyParts(dst, r.at+uint64(r.got)) {
		p.refuse(r)
		return nil, false
	}
	if r.got+n < r.n {
		return dst, true
	}
	if r.last = dst; own {
		p.part = nil // the receive's until Release
	}
	p.tellTaken(r, r.n)
	return dst, true
}

// refuse has the peer write what this rank could not read.
func (p *pair) refuse(r *Receive) {
	s := p.at(r.slot)
	s.posted = slices.Insert(s.posted, 0, r)
	s.noticed++
	p.tellTaken(r, r.got)
}

// tellTaken tells the peer how much of a payload has been read. An error comes back at the next call.
func (p *pair) tellTaken(r *Receive, n int) {
	r.remote = false
	p.remotes = slices.DeleteFunc(p.remotes, func(other *Receive) bool { return other == r })
	p.queue(head{opTaken, r.slot, n})
	r.tells = n == r.n
	_ = p.flush()
}

// told reports whether the connection has taken the message that the peer's payload was read. An error comes back at the next call.
func (p *pair) told(r *Receive) bool {
	if r.tells && p.flush() == nil && len(p.out)+len(p.later) > 0 {
		return false
	}
	r.tells = false
	return true
}

// relieve copies payloads out of the peer's memory for which nobody has asked since the last call, as Relieve does. Their sends may stand
// in the way of others.
func (p *pair) relieve() (moved bool) {
	for _, r := range slices.Clone(p.remotes) {
		looked := r.looked
		if r.looked = false; looked || r.got > 0 {
			continue
		}
		r.kept, _ = p.fetch(r, make([]byte, r.n), r.n)
		r.last = nil
		moved = true
	}
	return moved
}

// Withdraw takes back the payloads that peers have not read yet, whose sends fail. The callers' memory is no longer the mesh's.
func (m *Mesh) Withdraw() {
	if m.token != nil {
		m.token.Clear()
	}
}
