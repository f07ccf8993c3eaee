package stream

import "net"

// SameHost reports whether both ends of a TCP connection have one address. Then its bytes do not leave the host.
func SameHost(conn net.Conn) bool {
	a, ok := conn.LocalAddr().(*net.TCPAddr)
	b, ok2 := conn.RemoteAddr().(*net.TCPAddr)
	return ok && ok2 && a.IP.Equal(b.IP)
}
