package gloo

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
)

// meetOld links this rank by the old dialect:
//
//  1. It publishes its host's name under "rank_<rank>". Peers count the ranks on one host by it.
//  2. It listens once for each peer, and publishes all addresses in the order of the peers under its rank.
//  3. Of each peer it reads the address meant for this rank. The listeners of the pair decide which side dials. Nothing
//     introduces the dialler: the port tells whom it is for.
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
	dials, err := own.dials(theirs)
	if err != nil {
		return err
	}
	var conn net.Conn
	if dials {
		conn, err = f.dial(theirs)
	} else {
		stop := context.AfterFunc(f.ctx, func() { l.Close() })
		conn, err = l.Accept()
		stop()
	}
	if err != nil {
		return err
	}
	return f.link(peer, conn, dials)
}
