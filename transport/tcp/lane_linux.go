package tcp

import (
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/stream"
)

var _ transport.Laned = (*mesh)(nil)

// Lane implements transport.Laned. It gives one lane, once, and none over TLS. Elsewhere than on Linux the mesh's own waiter looks at the
// sockets of all lanes, and two goroutines would use one socket.
func (m *mesh) Lane(lane int) transport.LaneWaiter {
	if m.c.TLS != nil {
		return nil
	}
	var streams []stream.Stream
	for _, l := range m.links {
		if l != nil {
			streams = append(streams, l.lane(lane).stream)
		}
	}
	polled, err := stream.Polled(streams)
	if err != nil {
		return nil // no descriptors are left for its pipe
	}
	w := &laneWaiter{m: m, w: polled}
	w.spin.Allow(m.here, false)
	if !m.second.CompareAndSwap(nil, w) {
		polled.Close()
		return nil
	}
	return w
}
