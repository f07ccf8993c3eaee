//go:build !unix

package tcp

import "net"

// openStreams makes the streams of a mesh and what waits for them.
func openStreams(conns []net.Conn) ([]stream, waiter, error) {
	streams, w := pumps(conns)
	return streams, w, nil
}
