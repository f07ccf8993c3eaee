package cudasim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
)

// taken is memory that a device uses, and how its host takes it away.
type taken struct {
	at   cuda.Pointer
	take func()
}

func takenFree(c *scene) taken {
	var p cuda.Pointer
	c.on(1, func(th cuda.Thread) {
		var err error
		p, err = th.Alloc(64)
		c.must(err)
	})
	return taken{p, func() { c.on(1, func(th cuda.Thread) { c.must(th.Free(p)) }) }}
}

func takenHost(c *scene) taken {
	var h *cuda.Host
	c.on(0, func(th cuda.Thread) {
		var err error
		h, err = th.AllocHost(64)
		c.must(err)
	})
	return taken{h.Device, func() { c.on(0, func(th cuda.Thread) { c.must(th.FreeHost(h)) }) }}
}

func takenRegistered(c *scene) taken {
	b := make([]byte, 64)
	var h *cuda.Host
	c.on(0, func(th cuda.Thread) {
		var err error
		h, err = th.PinHost(b)
		c.must(err)
	})
	return taken{h.Device, func() { c.on(0, func(th cuda.Thread) { c.must(th.FreeHost(h)) }) }}
}

func takenShared(c *scene) taken {
	var s *cuda.Shared
	c.on(0, func(th cuda.Thread) {
		var err error
		s, err = th.AllocShared(64)
		c.must(err)
	})
	return taken{s.Pointer, func() { c.on(0, func(th cuda.Thread) { c.must(th.FreeShared(s)) }) }}
}

// Memory that is taken away before the host knows that its use is over is found, also when the use happens to be over.
func TestTakenAwayTooEarly(t *testing.T) {
	for name, of := range map[string]func(*scene) taken{
		"free": takenFree, "host": takenHost, "registered": takenRegistered, "shared": takenShared,
	} {
		for _, waits := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				for seed := range uint64(patternSeeds) {
					races, faults := play(t, pattern{run: func(c *scene) {
						m := of(c)
						c.copy(c.s, c.a, m.at, 64)
						c.on(0, func(th cuda.Thread) {
							e, err := th.NewEvent(false) // only its query says that it is over
							c.must(err)
							c.must(th.Record(e, c.s))
							for done := !waits; !done; {
								done, err = th.EventDone(e)
								c.must(err)
							}
							c.must(th.DestroyEvent(e))
						})
						m.take()
					}}, seed)
					if waits {
						require.Empty(t, races, "seed %d", seed)
						require.Empty(t, faults, "seed %d", seed)
						continue
					}
					require.Positive(t, len(races)+len(faults), "seed %d", seed)
				}
			})
		}
	}
}
