package shm

import (
	"testing"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/transporttest"
)

func open(t *testing.T, size int, change func(rank int, c *transport.Config)) []transport.Mesh {
	return transporttest.Open(t, size, Open, change)
}

func TestConformance(t *testing.T) { transporttest.Run(t, open) }
