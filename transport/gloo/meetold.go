package gloo

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
)

// meetOld links this rank by the old dialect:
//
//  1. It publishes its host's name under "rank_<rank>". Peers count the ranks on one host by it.
//  2. It listens once for each peer, and publishes all addresses in the order of the peers under its rank.
//  3. Of each peer it reads the address meant for this rank. The listeners of the pair decide which side dials. Nothing
//     introduces the dialler: the port tells whom it is for, and the host that it calls from whether it may be the peer.
func (f *forming) meetOld() error {
	name, _ := os.Hostname() // only counted; an empty one is as good
	if err := f.Rendezvous.Set(f.ctx, "rank_"+strconv.Itoa(f.Rank), []byte(name)); err != nil {
		return fmt.Errorf("publishing the host's name: %w", err)
	}
	listeners := make([]net.Listener, f.Size)
	own := make([]address, f.Size)
	defer func() {
		for _, l := range listeners {
			if l != nil {
				l.Close()
			}
		}
	}()
	var published []byte
	for peer := range f.Size {
		if peer == f.Rank {
			continue
		}
		var err error
		if listeners[peer], own[peer], err = listen(f.ctx, f.Config); err != nil {
			return err
		}
		own[peer].mark = markOf(f.token)
		published = own[peer].encode(published)
	}
	if err := f.Rendezvous.Set(f.ctx, strconv.Itoa(f.Rank), published); err != nil {
		return fmt.Errorf("publishing addresses: %w", err)
	}
	return f.each(func(peer int) error { return f.linkOld(peer, listeners[peer], own[peer]) })
}

func (f *forming) linkOld(peer int, l net.Listener, own address) error {
	b, err := f.get(peer)
	if err != nil {
		return err
	}
	theirs, err := decodeAddresses(b, peer, f.Rank, f.Size)
	if err != nil {
		return err
	}
	f.published(peer, theirs)
	dials, err := own.dials(theirs)
	if err != nil {
		return err
	}
	if dials {
		conn, err := f.dial(theirs, source(own, theirs))
		if err != nil {
			return err
		}
		return f.link(peer, conn, true)
	}
	a := f.newAcceptor(l, 1, func(conn net.Conn) (int, error) { return 0, calls(conn, theirs) })
	defer a.close()
	conn, err := a.wait(f.ctx, 0, false)
	if err != nil {
		return err
	}
	return f.place(peer, conn)
}

// calls refuses a connection that is not from the address where the peer listens. Gloo lets the system choose where it dials from. That
// is the listener's address where a host dials itself, or 127.0.0.1 for loopback addresses, so a peer on this host may have those, too.
func calls(conn net.Conn, peer address) error {
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	local, ok2 := conn.LocalAddr().(*net.TCPAddr)
	if !ok || !ok2 {
		return errElsewhere
	}
	from, at := remote.AddrPort().Addr().Unmap().WithZone(""), peer.Addr().Unmap()
	own := local.AddrPort().Addr().Unmap().WithZone("")
	if from == at || ofThisHost(at) && (from == own || from == loopback && at.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%w: the peer listens at %v", errElsewhere, at)
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

var errElsewhere = errors.New("not from the peer's address")

// ofThisHost reports whether an address is a loopback address, or one that an interface of this host has.
func ofThisHost(a netip.Addr) bool {
	if a.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(all, func(i net.Addr) bool {
		p, err := netip.ParsePrefix(i.String())
		return err == nil && p.Addr().Unmap().WithZone("") == a
	})
}

// source is where this rank dials from: the address at which it listens, by which the peer knows it. The system chooses where that
// address cannot reach the peer: from a loopback address to another host, or where a link has to be named.
func source(own, peer address) net.Addr {
	if own.Addr().IsLoopback() != peer.Addr().IsLoopback() || own.Addr().IsLinkLocalUnicast() {
		return nil
	}
	return &net.TCPAddr{IP: own.Addr().AsSlice()}
}
