package gloo_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"

	"github.com/colligo-go/colligo/store"
)

// published is what a rank of PyTorch 2.1 or later publishes, as far as tests look at it.
type published struct {
	host    []byte
	address []byte // 136 bytes
	ids     []byte // of 8 bytes each
}

func cutPublished(b []byte) (p published, err error) {
	for _, s := range []*[]byte{&p.host, &p.address} {
		if len(b) < 8 || binary.LittleEndian.Uint64(b) > uint64(len(b)-8) {
			return p, fmt.Errorf("%d bytes are no address of a rank", len(b))
		}
		n := binary.LittleEndian.Uint64(b)
		*s, b = b[8:8+n], b[8+n:]
	}
	if len(p.address) != 136 {
		return p, fmt.Errorf("an address of %d bytes", len(p.address))
	}
	p.ids = b
	return p, nil
}

func (p *published) bytes() []byte {
	var b []byte
	for _, s := range [][]byte{p.host, p.address} {
		b = append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
	}
	return append(b, p.ids...)
}

// at is the IPv4 address that was published.
func (p *published) at() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(p.address[4:8])), binary.BigEndian.Uint16(p.address[2:]))
}

// publishes makes what a rank at an address publishes in a job of so many ranks.
func publishes(at netip.AddrPort, size int) *published {
	p := &published{host: []byte("peer"), address: make([]byte, 136)}
	p.address[0] = 2
	binary.BigEndian.PutUint16(p.address[2:], at.Port())
	copy(p.address[4:], at.Addr().AsSlice())
	for r := range size {
		p.ids = binary.LittleEndian.AppendUint64(p.ids, uint64(r))
	}
	return p
}

// dialRank is a peer in a job of two ranks of PyTorch 2.1 or later, whose address is the larger one, so that it dials. It returns the
// connection to the other rank, over which only messages go from then on.
func dialRank(ctx context.Context, s store.Store, rank int) (net.Conn, error) {
	meets := store.NewPrefix("0//cpu//0", s)
	larger := netip.MustParseAddrPort("127.255.255.254:1") // nobody dials it
	if err := meets.Set(ctx, strconv.Itoa(rank), publishes(larger, 2).bytes()); err != nil {
		return nil, err
	}
	b, err := meets.Get(ctx, strconv.Itoa(1-rank))
	if err != nil {
		return nil, err
	}
	other, err := cutPublished(b)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", other.at().String())
	if err != nil {
		return nil, err
	}
	_, err = conn.Write(other.ids[8*rank : 8*rank+8])
	return conn, err
}

// The opcodes of messages, and the bytes before a payload.
const (
	opPayload    = 1
	opNoticeSend = 2
	opNoticeRecv = 3
	headBytes    = 48
)

func headOf(op, slot, n uint64) []byte {
	total := uint64(headBytes)
	if op == opPayload {
		total += n
	}
	var b []byte
	for _, word := range [...]uint64{total, op, slot, 0, n, 0} {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

// obliging is a peer that answers all notices of one rank as the protocol wants it, so that any collective of two ranks goes on. Its
// payloads are the bytes that it has to say, and zeros after them.
type obliging struct {
	conn  io.ReadWriter
	says  []byte
	asked uint64 // the longest payload that the rank has asked for
}

// maxAsked is more than a rank may ask for.
const maxAsked = 1 << 24

// run answers until the connection ends.
func (o *obliging) run() error {
	head := make([]byte, headBytes)
	for {
		if _, err := io.ReadFull(o.conn, head); err != nil {
			return nil // the rank has ended it
		}
		op, slot, n := binary.LittleEndian.Uint64(head[8:]), binary.LittleEndian.Uint64(head[16:]), binary.LittleEndian.Uint64(head[32:])
		var err error
		switch op {
		case opPayload:
			_, err = io.CopyN(io.Discard, o.conn, int64(n))
		case opNoticeSend:
			_, err = o.conn.Write(headOf(opNoticeRecv, slot, n))
		case opNoticeRecv:
			if o.asked = max(o.asked, n); n > maxAsked {
				return fmt.Errorf("the rank asks for %d bytes", n)
			}
			payload := make([]byte, n)
			o.says = o.says[copy(payload, o.says):]
			said := append(headOf(opNoticeSend, slot, n), headOf(opPayload, slot, n)...)
			_, err = o.conn.Write(append(said, payload...))
		default:
			return fmt.Errorf("opcode %d", op)
		}
		if err != nil {
			return nil
		}
	}
}
