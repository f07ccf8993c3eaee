package gloo

import (
	"sync/atomic"

	"github.com/colligo-go/colligo/transport/internal/peermem"
)

// partBytes is read at once: so much that the reduction finds it in the cache.
const partBytes = 256 << 10

// twoBytes is from where on two goroutines read a payload: so many that the second is soon awake by comparison.
const twoBytes = 4 << 20

// copying is a payload in a peer's memory, or what is left of it, that goroutines read. Each takes the next part that nobody has taken.
type copying struct {
	dst  []byte
	at   uint64 // the peer's address
	next atomic.Int64
}

// read reads parts until none is left. It reports false if one could not be read. Then nobody takes another.
func (c *copying) read(m *peermem.Memory) bool {
	for {
		from := c.next.Add(partBytes) - partBytes
		if from >= int64(len(c.dst)) {
			return true
		}
		part := c.dst[from:min(from+partBytes, int64(len(c.dst)))]
		if !m.Read(part, c.at+uint64(from)) {
			c.next.Store(int64(len(c.dst)))
			return false
		}
	}
}

// copyParts reads memory of the peer. It reports false if not all of it could be read.
func (p *pair) copyParts(dst []byte, at uint64) bool {
	if len(dst) >= twoBytes {
		return p.copyByTwo(&copying{dst: dst, at: at})
	}
	c := copying{dst: dst, at: at}
	return c.read(p.memory)
}

// copyByTwo has a second goroutine take parts, too. In a broadcast the sender does nothing meanwhile, so there is a core for that.
func (p *pair) copyByTwo(c *copying) bool {
	if p.second == nil {
		p.second = p.memory.Beside()
	}
	second := make(chan bool, 1)
	go func() { second <- c.read(p.second) }()
	first := c.read(p.memory)
	return <-second && first
}
