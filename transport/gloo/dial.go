package gloo

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"
)

const (
	dialTries = 4
	dialPause = 100 * time.Millisecond
)

// dial connects to a peer's listener, which is there before its address is published. A refusal is tried again a few times. Without
// an address to dial from the system chooses one.
func (f *forming) dial(a address, from net.Addr) (conn net.Conn, err error) {
	d := net.Dialer{KeepAlive: -1, LocalAddr: from} // as Gloo has it
	for try := range dialTries {
		if conn, err = d.DialContext(f.ctx, "tcp", a.target()); err == nil || f.ctx.Err() != nil {
			return conn, err
		}
		select {
		case <-time.After(dialPause << try):
		case <-f.ctx.Done():
		}
	}
	return nil, err
}

// admission returns what secures an accepted connection.
func (f *forming) admission() func(context.Context, net.Conn) (net.Conn, error) {
	conf := f.TLS
	return func(ctx context.Context, conn net.Conn) (net.Conn, error) {
		if conf == nil {
			return conn, nil
		}
		t := tls.Server(conn, conf)
		return t, t.HandshakeContext(ctx)
	}
}

// listen opens a listener at one address, and returns the address:
//
//   - Host, if it is set: an address, an interface (its first address that can be listened at) or a host name;
//   - else the local address of the route to Probe;
//   - else the first address of this host's name that can be listened at, and last 127.0.0.1, as PyTorch has it.
func listen(ctx context.Context, c *Config) (net.Listener, address, error) {
	hosts, err := candidates(ctx, c)
	if err != nil {
		return nil, address{}, err
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	for _, host := range hosts {
		var l net.Listener
		if l, err = lc.Listen(ctx, "tcp", netip.AddrPortFrom(host, 0).String()); err != nil {
			continue
		}
		at := l.Addr().(*net.TCPAddr).AddrPort()
		return l, address{AddrPort: netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())}, nil
	}
	return nil, address{}, fmt.Errorf("no address of %v can be listened at: %w", hosts, err)
}

func candidates(ctx context.Context, c *Config) ([]netip.Addr, error) {
	switch {
	case c.Host != "":
		return addressesOf(ctx, c.Host)
	case c.Probe != "":
		if a, ok := route(ctx, c.Probe); ok {
			return []netip.Addr{a}, nil
		}
	}
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	all, _ := addressesOf(ctx, name) // a host that does not know its own name is as good as one without
	return append(all, loopback), nil
}

// addressesOf returns the addresses of an address, an interface or a host name.
func addressesOf(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	i, err := net.InterfaceByName(host)
	if err != nil {
		all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		for i := range all {
			all[i] = all[i].Unmap()
		}
		return all, err
	}
	addrs, err := i.Addrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of interface %s: %w", host, err)
	}
	var v4, v6 []netip.Addr
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		switch {
		case err != nil || p.Addr().IsLinkLocalUnicast():
		case p.Addr().Unmap().Is4():
			v4 = append(v4, p.Addr().Unmap())
		default:
			v6 = append(v6, p.Addr())
		}
	}
	if len(v4)+len(v6) == 0 {
		return nil, fmt.Errorf("interface %s has no address", host)
	}
	return append(v4, v6...), nil
}

// route returns the local address that packets to probe would carry. Nothing is sent.
func route(ctx context.Context, probe string) (netip.Addr, bool) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", probe)
	if err != nil {
		return netip.Addr{}, false
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().WithZone(""), true
}
