package gloo

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
)

// addressSize is the bytes of an address: a struct sockaddr_storage of Linux and a sequence number.
const addressSize = 136

// Families of sockaddr_storage.
const (
	familyIPv4 = 2
	familyIPv6 = 10
)

var le, be = binary.LittleEndian, binary.BigEndian

// address is where a rank listens.
type address struct {
	netip.AddrPort
	scope uint32 // of a link-local IPv6 address: the number of the peer's interface
	mark  mark   // of a rank of this package
}

// encode appends the address as Gloo has it in memory. The sequence number is unset, -1.
func (a address) encode(b []byte) []byte {
	var s [addressSize]byte
	be.PutUint16(s[2:], a.Port())
	if a.Addr().Is4() {
		le.PutUint16(s[0:], familyIPv4)
		copy(s[4:], a.Addr().AsSlice())
	} else {
		le.PutUint16(s[0:], familyIPv6)
		copy(s[8:], a.Addr().AsSlice())
		le.PutUint32(s[24:], a.scope)
	}
	copy(s[markAt:], a.mark[:])
	le.PutUint64(s[128:], ^uint64(0))
	return append(b, s[:]...)
}

// decodeAddress reads an address. Bytes without a meaning are not looked at: a peer leaves them uninitialised.
func decodeAddress(b []byte) (address, error) {
	if len(b) != addressSize {
		return address{}, fmt.Errorf("an address of %d bytes, not %d", len(b), addressSize)
	}
	port := be.Uint16(b[2:])
	switch family := le.Uint16(b); family {
	case familyIPv4:
		return address{AddrPort: netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port), mark: markIn(b)}, nil
	case familyIPv6:
		return address{netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port), le.Uint32(b[24:]), markIn(b)}, nil
	default:
		return address{}, fmt.Errorf("an address of family %d", family)
	}
}

// dials reports whether the rank that listens at a dials the one that listens at b. The larger address does. The port
// counts as Gloo compares it: its bytes in network order, read as a little-endian number. Equal ones compare sequence
// numbers, which are unset on both sides.
func (a address) dials(b address) (bool, error) {
	if a.Addr().Is4() != b.Addr().Is4() {
		return false, fmt.Errorf("this rank listens at %v, the peer at %v: not of one family", a, b)
	}
	if c := bytes.Compare(a.Addr().AsSlice(), b.Addr().AsSlice()); c != 0 {
		return c > 0, nil
	}
	return swap(a.Port()) > swap(b.Port()), nil
}

func swap(port uint16) uint16 { return port<<8 | port>>8 }

// target is the address as a dialer wants it.
func (a address) target() string {
	if a.scope != 0 && a.Addr().IsLinkLocalUnicast() {
		return netip.AddrPortFrom(a.Addr().WithZone(fmt.Sprint(a.scope)), a.Port()).String()
	}
	return a.String()
}
