package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/stream"
	"github.com/colligo-go/colligo/transport/transporttest"
)

// TestPoll runs the suite with the waiter of systems without epoll.
func TestPoll(t *testing.T) {
	for _, c := range transporttest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			c.Run(t, func(t *testing.T, size int, change func(int, *transport.Config)) []transport.Mesh {
				meshes := opener(func(*transport.Config) {})(t, size, change)
				for _, m := range meshes {
					usePoll(t, m.(*mesh))
				}
				return meshes
			})
		})
	}
}

func usePoll(t *testing.T, m *mesh) {
	var streams []stream.Stream
	for _, l := range m.links {
		if l == nil {
			continue
		}
		for i := range l.lanes {
			streams = append(streams, l.lanes[i].stream)
		}
	}
	p, err := stream.Polled(streams)
	require.NoError(t, err)
	m.w.Close()
	m.w = p
}
