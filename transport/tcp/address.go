package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/colligo-go/colligo/transport"
)

// listen opens the rank's listener and returns the addresses, host:port each, at which peers may reach it, likeliest
// first:
//
//   - Host, if it is set: an address, an interface (its first address that can be listened on) or a host name;
//   - else the local address of the route to Probe;
//   - else, and if that route stays within the host though Probe's name does not say so, all addresses.
func listen(ctx context.Context, c *transport.Config) (net.Listener, []string, error) {
	hosts, err := candidates(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // lanes are the paths here
	var errs []error
	for _, host := range hosts {
		l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if host != "" {
			return l, []string{l.Addr().String()}, nil
		}
		addrs, err := everywhere(l.Addr().(*net.TCPAddr).Port)
		if err != nil {
			return nil, nil, errors.Join(err, l.Close())
		}
		return l, addrs, nil
	}
	at := ""
	if c.Host != "" {
		at = fmt.Sprintf(" at address, interface or host %q", c.Host)
	}
	return nil, nil, fmt.Errorf("tcp: rank %d cannot listen%s: %w", c.Rank, at, errors.Join(errs...))
}

// candidates returns hosts to listen on, the empty one for all.
func candidates(ctx context.Context, c *transport.Config) ([]string, error) {
	if c.Host == "" {
		return []string{route(ctx, c.Probe)}, nil
	}
	if _, err := netip.ParseAddr(c.Host); err == nil {
		return []string{c.Host}, nil
	}
	i, err := net.InterfaceByName(c.Host)
	if err != nil {
		return []string{c.Host}, nil // a host name; listening on it says what is wrong with it
	}
	addrs, err := i.Addrs()
	if err != nil {
		return nil, fmt.Errorf("tcp: addresses of interface %s: %w", c.Host, err)
	}
	hosts := ordered(addrs, i.Name)
	if len(hosts) == 0 {
		return nil, fmt.Errorf("tcp: interface %s has no address", c.Host)
	}
	return hosts, nil
}

// route returns the local address that packets to probe would carry, empty if that is unknown or no answer for other
// hosts. Nothing is sent.
func route(ctx context.Context, probe string) string {
	if probe == "" {
		return ""
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", probe)
	if err != nil {
		return ""
	}
	defer conn.Close()
	local := conn.LocalAddr().(*net.UDPAddr)
	if local.IP.IsLoopback() && !saysLoopback(probe) {
		return "" // a name that only this host takes for itself, as Debian's 127.0.1.1
	}
	host, _, err := net.SplitHostPort(local.String())
	if err != nil {
		return ""
	}
	return host
}

func saysLoopback(probe string) bool {
	host, _, err := net.SplitHostPort(probe)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// everywhere returns the addresses of all interfaces that are up.
func everywhere(port int) ([]string, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("tcp: interfaces: %w", err)
	}
	var far, near []string
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 {
			continue
		}
		for _, host := range ordered(addrs, i.Name) {
			addr := net.JoinHostPort(host, fmt.Sprint(port))
			if i.Flags&net.FlagLoopback != 0 {
				near = append(near, addr)
			} else {
				far = append(far, addr)
			}
		}
	}
	return append(far, near...), nil
}

// ordered returns an interface's addresses as hosts: IPv4, then IPv6, then those that are valid on one link only, with
// their zone.
func ordered(addrs []net.Addr, zone string) []string {
	var v4, v6, local []string
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		switch ip := p.Addr().Unmap(); {
		case ip.Is6() && ip.IsLinkLocalUnicast():
			local = append(local, ip.WithZone(zone).String())
		case ip.Is4():
			v4 = append(v4, ip.String())
		default:
			v6 = append(v6, ip.String())
		}
	}
	return append(append(v4, v6...), local...)
}

func addressKey(rank int) string { return fmt.Sprintf("tcp/%d", rank) }

func publish(ctx context.Context, c *transport.Config, addrs []string) error {
	if err := c.Rendezvous.Set(ctx, addressKey(c.Rank), []byte(strings.Join(addrs, "\n"))); err != nil {
		return fmt.Errorf("tcp: publish addresses of rank %d: %w", c.Rank, err)
	}
	return nil
}

// addressLimit bounds what is believed of a peer's published addresses.
const addressLimit = 64

func lookUp(ctx context.Context, c *transport.Config, peer int) ([]string, error) {
	b, err := c.Rendezvous.Get(ctx, addressKey(peer))
	if err != nil {
		return nil, fmt.Errorf("addresses of rank %d: %w", peer, err)
	}
	addrs := strings.Split(string(b), "\n")
	if len(addrs) > addressLimit {
		return nil, fmt.Errorf("rank %d published %d addresses", peer, len(addrs))
	}
	return addrs, nil
}
