package ncclsim

import (
	"slices"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/nccl"
)

// split makes a rank's communicator of those ranks of another that give one color. It waits until all ranks of the other have come. The
// caller holds s.mu.
func (s *Sim) split(c *comm, color, key int, to *nccl.CommHandle) nccl.Result {
	c.splits++
	s.parts[c.rank] = append(s.parts[c.rank], Split{Size: c.world.size, Color: color, Key: key})
	w, number := c.world, c.splits
	x := w.splits[number]
	if x == nil {
		x = &splitting{colors: make([]int, w.size), keys: make([]int, w.size), ids: map[int]nccl.UniqueID{}}
		w.splits[number] = x
	}
	x.colors[c.rank], x.keys[c.rank] = color, key
	if _, known := x.ids[color]; !known {
		x.ids[color] = newID()
	}
	x.come++
	s.changed.Broadcast()
	for x.come < w.size {
		if c.aborted {
			return nccl.InternalError
		}
		s.changed.Wait()
	}
	if color == nccl.NoColor {
		return nccl.Success
	}
	rank, size := 0, 0
	for r := range w.size {
		if x.colors[r] != color {
			continue
		}
		if size++; x.keys[r] < key || x.keys[r] == key && r < c.rank {
			rank++
		}
	}
	return s.joinAndWait(c.device.Driver(), to, size, x.ids[color], rank)
}

// shrink makes a rank's communicator without some ranks. It waits until all others have come. The caller holds s.mu.
func (s *Sim) shrink(c *comm, without []int32, to *nccl.CommHandle, flags int) nccl.Result {
	gone := func(r int) bool { return slices.Contains(without, int32(r)) }
	w := c.world
	if gone(c.rank) || len(without) == 0 || len(without) >= w.size {
		return nccl.InvalidArgument
	}
	if flags&nccl.ShrinkAbort != 0 {
		c.released = true
	}
	c.shrinks++
	x := w.shrinks[c.shrinks]
	if x == nil {
		x = &splitting{ids: map[int]nccl.UniqueID{0: newID()}}
		w.shrinks[c.shrinks] = x
	}
	rank, size := 0, 0
	for r := range w.size {
		if gone(r) {
			continue
		}
		if size++; r < c.rank {
			rank++
		}
	}
	x.come++
	s.changed.Broadcast()
	for x.come < size {
		if c.aborted {
			return nccl.InternalError
		}
		s.changed.Wait()
	}
	return s.joinAndWait(c.device.Driver(), to, size, x.ids[0], rank)
}

// all makes the communicators of all devices of one process. The caller holds s.mu.
func (s *Sim) all(in *cuda.Driver, to []nccl.CommHandle, devices []int32) nccl.Result {
	id := newID()
	for i, n := range devices {
		if slices.Contains(devices[:i], n) {
			return nccl.InvalidUsage
		}
		d, err := s.device(in, int(n))
		if err != nil {
			return nccl.InvalidArgument
		}
		if _, r := s.joinOn(d, id, i, len(devices), &to[i]); r != nccl.Success {
			return r
		}
	}
	return nccl.Success
}

// device returns a device of a process by its number. The Sim keeps it until Close. The caller holds s.mu.
func (s *Sim) device(in *cuda.Driver, n int) (*cuda.Device, error) {
	for d := range s.pages {
		if d.Driver() == in && d.Index() == n {
			return d, nil
		}
	}
	d, err := in.Device(n)
	if err == nil {
		s.pages[d] = nil
	}
	return d, err
}
