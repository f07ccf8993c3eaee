package transport

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The handshake, format version 1. All integers are little-endian.
//
//	dialer   -> acceptor   greeting (64 bytes)
//	acceptor -> dialer     greeting (64 bytes), proof (32 bytes)
//	dialer   -> acceptor   proof (32 bytes)
//
// A greeting is magic (4), version (2), purpose (2), group (4) and size (4). Then come the sender's rank (4), the receiver's
// rank (4), eight zero bytes and a nonce (32). The acceptor's proof is HMAC-SHA256(secret, acceptorLabel || both greetings),
// the dialer's HMAC-SHA256(secret, dialerLabel || both greetings || the acceptor's proof). The label is the direction, so
// that no proof can be handed back to the side that made it. The nonces are fresh, so that no proof can be used twice.
const (
	greetMagic    = 0x68676c63 // "clgh"
	greetVersion  = 1
	greetSize     = 64
	proofSize     = sha256.Size
	acceptorLabel = "colligo handshake acceptor 1"
	dialerLabel   = "colligo handshake dialer 1"
)

// HandshakeTime bounds one handshake; a context that ends sooner ends it sooner.
const HandshakeTime = 20 * time.Second

// Purposes of a connection: the control channel, or data lane i as PurposeLane + i.
const (
	PurposeControl uint16 = 0
	PurposeLane    uint16 = 1
)

// greeting is one side's claim; nothing of it is believed before the proof has been checked.
type greeting struct {
	version, purpose      uint16
	group, size, from, to uint32
	raw                   [greetSize]byte
}

// Greet runs the dialer's side of the handshake with a peer over a fresh connection. A *PeerError says that a rank
// answered and trying again is of no use: another secret, group, size or rank. Any other error is of the connection, or
// of a program on the port that is no rank. The connection is the caller's to close.
func Greet(ctx context.Context, conn net.Conn, c *Config, peer int, purpose uint16) error {
	return within(ctx, conn, func() error {
		mine := newGreeting(c, peer, purpose)
		if _, err := conn.Write(mine.raw[:]); err != nil {
			return fmt.Errorf("handshake with rank %d at %v: %w", peer, conn.RemoteAddr(), err)
		}
		theirs, proof, err := readAnswer(conn)
		if err != nil {
			return fmt.Errorf("handshake with rank %d at %v: %w", peer, conn.RemoteAddr(), err)
		}
		// The own proof goes out even if the peer's is wrong: then both sides can say what is the matter.
		mac := prove(c.Secret, dialerLabel, mine.raw[:], theirs.raw[:], proof)
		if _, err := conn.Write(mac); err != nil {
			return fmt.Errorf("handshake with rank %d at %v: %w", peer, conn.RemoteAddr(), err)
		}
		if err := theirs.check(c); err != nil {
			return &PeerError{peer, err}
		}
		if !hmac.Equal(proof, prove(c.Secret, acceptorLabel, mine.raw[:], theirs.raw[:])) {
			return &PeerError{peer, errSecret(conn)}
		}
		if theirs.from != uint32(peer) || theirs.purpose != purpose {
			return &PeerError{peer, fmt.Errorf("rank %d answered at %v", theirs.from, conn.RemoteAddr())}
		}
		return nil
	})
}

// Admit runs the acceptor's side of the handshake over a fresh connection, and returns the rank that has dialed, and the
// purpose. A *PeerError means that the dialer proved the secret but does not fit this group: the group cannot form. With any
// other error the dialer is a stranger, to be dropped and logged. Whether the peer has dialed before is for the caller to
// see.
func Admit(ctx context.Context, conn net.Conn, c *Config) (peer int, purpose uint16, err error) {
	err = within(ctx, conn, func() error {
		theirs, err := readGreeting(conn)
		if err != nil {
			return fmt.Errorf("handshake from %v: %w", conn.RemoteAddr(), err)
		}
		mine := newGreeting(c, int(theirs.from), theirs.purpose)
		proof := prove(c.Secret, acceptorLabel, theirs.raw[:], mine.raw[:])
		if _, err := conn.Write(append(mine.raw[:], proof...)); err != nil {
			return fmt.Errorf("handshake from %v: %w", conn.RemoteAddr(), err)
		}
		var got [proofSize]byte
		if _, err := io.ReadFull(conn, got[:]); err != nil {
			return fmt.Errorf("handshake from %v, which says it is rank %d: no proof: %w", conn.RemoteAddr(), theirs.from, err)
		}
		if !hmac.Equal(got[:], prove(c.Secret, dialerLabel, theirs.raw[:], mine.raw[:], proof)) {
			return fmt.Errorf("handshake from %v, which says it is rank %d: %w", conn.RemoteAddr(), theirs.from, errSecret(conn))
		}
		peer, purpose = int(theirs.from), theirs.purpose
		return theirs.admissible(c)
	})
	return peer, purpose, err
}

// admissible says why a dialer that has proved the secret cannot be let in.
func (g *greeting) admissible(c *Config) error {
	peer := int(g.from)
	if err := g.check(c); err != nil {
		return &PeerError{peer, err}
	}
	switch {
	case peer >= c.Size:
		return &PeerError{peer, fmt.Errorf("says it is rank %d of %d ranks", peer, c.Size)}
	case peer == c.Rank:
		return &PeerError{peer, fmt.Errorf("says it is rank %d, which is this rank: two processes of the same rank?", peer)}
	case int(g.to) != c.Rank:
		return &PeerError{peer, fmt.Errorf("looks for rank %d, this is rank %d", g.to, c.Rank)}
	case int(g.purpose) > c.Lanes:
		return &PeerError{peer, fmt.Errorf("opens lane %d, here a link has %d lanes", g.purpose-PurposeLane, c.Lanes)}
	}
	return nil
}

// check compares what both sides must agree on.
func (g *greeting) check(c *Config) error {
	switch {
	case g.group != c.Group:
		return fmt.Errorf("rank %d is of group %#x, this is group %#x %q", g.from, g.group, c.Group, c.Name)
	case int(g.size) != c.Size:
		return fmt.Errorf("rank %d says the group has %d ranks, here it has %d", g.from, g.size, c.Size)
	}
	return nil
}

func errSecret(conn net.Conn) error {
	return fmt.Errorf("%v has another secret: a group left over from another run, or another job?", conn.RemoteAddr())
}

func newGreeting(c *Config, peer int, purpose uint16) *greeting {
	g := &greeting{version: greetVersion, purpose: purpose, group: c.Group, size: uint32(c.Size), from: uint32(c.Rank), to: uint32(peer)}
	le := binary.LittleEndian
	le.PutUint32(g.raw[0:], greetMagic)
	le.PutUint16(g.raw[4:], g.version)
	le.PutUint16(g.raw[6:], g.purpose)
	le.PutUint32(g.raw[8:], g.group)
	le.PutUint32(g.raw[12:], g.size)
	le.PutUint32(g.raw[16:], g.from)
	le.PutUint32(g.raw[20:], g.to)
	rand.Read(g.raw[32:]) // never fails: crypto/rand ends the program where no randomness can be had
	return g
}

// readGreeting reads a greeting; what it returns is a claim.
func readGreeting(r io.Reader) (*greeting, error) {
	g := &greeting{}
	// The magic is looked at first, so that a program that speaks something shorter is recognised at once.
	if n, err := io.ReadFull(r, g.raw[:4]); err != nil {
		return nil, fmt.Errorf("%d bytes and no more: %w", n, err)
	}
	le := binary.LittleEndian
	if got := le.Uint32(g.raw[:]); got != greetMagic {
		return nil, fmt.Errorf("not a rank of this library: it began with %q", g.raw[:4])
	}
	if _, err := io.ReadFull(r, g.raw[4:]); err != nil {
		return nil, fmt.Errorf("greeting cut short: %w", err)
	}
	g.version, g.purpose = le.Uint16(g.raw[4:]), le.Uint16(g.raw[6:])
	g.group, g.size = le.Uint32(g.raw[8:]), le.Uint32(g.raw[12:])
	g.from, g.to = le.Uint32(g.raw[16:]), le.Uint32(g.raw[20:])
	switch {
	case g.version != greetVersion:
		return nil, fmt.Errorf("handshake version %d, this is version %d", g.version, greetVersion)
	case g.from >= MaxSize || g.to >= MaxSize || g.size > MaxSize || g.purpose > MaxLanes:
		return nil, errors.New("greeting beyond the limits of ranks and lanes")
	}
	return g, nil
}

func readAnswer(r io.Reader) (*greeting, []byte, error) {
	g, err := readGreeting(r)
	if err != nil {
		return nil, nil, err
	}
	proof := make([]byte, proofSize)
	if _, err := io.ReadFull(r, proof); err != nil {
		return nil, nil, fmt.Errorf("no proof: %w", err)
	}
	return g, proof, nil
}

func prove(secret []byte, label string, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte(label))
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// within runs f, and fails the connection's reads and writes when the context ends, HandshakeTime from now at the latest.
func within(ctx context.Context, conn net.Conn, f func() error) error {
	if err := conn.SetDeadline(time.Now().Add(HandshakeTime)); err != nil {
		return fmt.Errorf("handshake with %v: %w", conn.RemoteAddr(), err)
	}
	cancelled := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		conn.SetDeadline(time.Unix(1, 0)) // a failure here shows as one of f
	})
	err := f()
	if !stop() {
		<-cancelled
		return fmt.Errorf("handshake with %v: %w", conn.RemoteAddr(), context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("handshake with %v: %w", conn.RemoteAddr(), err)
	}
	return nil
}
