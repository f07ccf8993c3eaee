package gloo

import "fmt"

// Limits of what a rank publishes.
const (
	maxName  = 4096    // bytes of a host name
	maxRanks = 1 << 16 // ranks of a group
)

// rankInfo is published by a rank of New: the name of its host, and the address at which it listens. The sequence numbers are
// those by which each rank must introduce itself, this one included. Without numbers a dialler gives its own rank.
type rankInfo struct {
	host    string
	address address
	ids     []uint64
}

// encode returns the published form: two strings with their lengths, then the numbers.
func (r *rankInfo) encode() []byte {
	b := le.AppendUint64(nil, uint64(len(r.host)))
	b = append(b, r.host...)
	b = le.AppendUint64(b, addressSize)
	b = r.address.encode(b)
	for _, id := range r.ids {
		b = le.AppendUint64(b, id)
	}
	return b
}

// decodeRank reads what a rank of a group of size ranks has published.
func decodeRank(b []byte, size int) (*rankInfo, error) {
	name, b, err := cutString(b, maxName)
	if err != nil {
		return nil, fmt.Errorf("host name: %w", err)
	}
	at, b, err := cutString(b, addressSize)
	if err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	r := &rankInfo{host: string(name)}
	if r.address, err = decodeAddress(at); err != nil {
		return nil, err
	}
	if len(b) != 0 && len(b) != 8*size {
		return nil, fmt.Errorf("sequence numbers of %d bytes for %d ranks", len(b), size)
	}
	for ; len(b) > 0; b = b[8:] {
		r.ids = append(r.ids, le.Uint64(b))
	}
	return r, nil
}

// cutString takes a string with its length off b.
func cutString(b []byte, limit int) (s, rest []byte, err error) {
	if len(b) < 8 {
		return nil, nil, fmt.Errorf("%d bytes left where a length should be", len(b))
	}
	n := le.Uint64(b)
	if b = b[8:]; n > uint64(limit) || n > uint64(len(b)) {
		return nil, nil, fmt.Errorf("%d bytes announced, %d are left and %d allowed", n, len(b), limit)
	}
	return b[:n], b[n:], nil
}

// decodeAddresses reads what a rank of Old publishes: an address for each other rank, in their order.
func decodeAddresses(b []byte, rank, reader, size int) (address, error) {
	if len(b) != (size-1)*addressSize {
		return address{}, fmt.Errorf("addresses of %d bytes for %d ranks", len(b), size)
	}
	if reader > rank {
		reader--
	}
	return decodeAddress(b[reader*addressSize : (reader+1)*addressSize])
}
