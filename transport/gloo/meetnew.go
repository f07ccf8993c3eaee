package gloo

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
)

// meetNew links this rank by the new dialect:
//
//  1. It listens once, and publishes host name, address and a sequence number for each rank under its rank.
//  2. It reads what each peer has published. The larger address dials, and introduces itself by the number that the peer has
//     for it, or by its rank if the peer has none.
//  3. Peers with the larger address are waited for, but not those that have published no numbers: they may connect lazily, at
//     the first message.
func (f *forming) meetNew() error {
	l, own, err := listen(f.ctx, f.Config)
	if err != nil {
		return err
	}
	f.accept = f.newAcceptor(l, f.Size, f.introduced)
	own.mark = markOf(f.token)
	info := rankInfo{host: hostName(), address: own, ids: make([]uint64, f.Size)}
	for r := range info.ids {
		info.ids[r] = uint64(r)
	}
	if err := f.Rendezvous.Set(f.ctx, strconv.Itoa(f.Rank), info.encode()); err != nil {
		return fmt.Errorf("publishing the address: %w", err)
	}
	return f.each(func(peer int) error { return f.linkNew(peer, own) })
}

// hostName is this host's name with a mark of ours. Peers count the ranks on one host by it. Some versions of Gloo reduce
// through shared memory where all names are equal, and this package does not.
func hostName() string {
	name, _ := os.Hostname() // only compared; an empty one is as good
	return name + "/colligo"
}

func (f *forming) linkNew(peer int, own address) error {
	b, err := f.get(peer)
	if err != nil {
		return err
	}
	info, err := decodeRank(b, f.Size)
	if err != nil {
		return fmt.Errorf("what it published: %w", err)
	}
	f.published(peer, info.address)
	dials, err := own.dials(info.address)
	if err != nil {
		return err
	}
	if !dials {
		conn, err := f.accept.wait(f.ctx, peer, info.ids == nil)
		if conn == nil || err != nil {
			return err
		}
		return f.place(peer, conn)
	}
	id := uint64(f.Rank)
	if info.ids != nil {
		id = info.ids[f.Rank]
	}
	conn, err := f.dial(info.address, nil)
	if err != nil {
		return err
	}
	if _, err := conn.Write(le.AppendUint64(nil, id)); err != nil { // in one write: a peer reads once
		return errors.Join(err, conn.Close())
	}
	return f.link(peer, conn, true)
}

// place takes a connection that the acceptor has introduced and secured.
func (f *forming) place(peer int, conn net.Conn) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns[peer] = conn
	return nil
}
