package ncclsim

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/colligo-go/colligo/cuda"
)

// capturedBit marks the numbers of calls that a graph has captured. Below it are the call's number among the captured ones, and how often
// its graph was launched.
const capturedBit = 1 << 63

// captured reports whether the stream of a call is captured.
func (s *Sim) captured(x *call) (bool, error) {
	if x.stream == 0 {
		return false, nil
	}
	t, err := x.comm.device.Enter()
	if err != nil {
		return false, err
	}
	defer t.Leave()
	status, _, err := t.Capturing(x.stream)
	return status != cuda.CaptureNone, err
}

// replay carries out captured calls, once for each launch of their graph, until the communicator or the library is closed:
//
//  1. The stream has copied the inputs and says so.
//  2. The launch's calls meet the calls of the peers. Their inputs and outputs are copies in memory of the simulator.
//  3. The outputs are put where the stream copies them from, and the stream goes on.
func (s *Sim) replay(calls []*call, page *cuda.Host) {
	arrived, computed := (*uint32)(unsafe.Pointer(&page.Bytes[arrivedAt])), (*uint32)(unsafe.Pointer(&page.Bytes[computedAt]))
	for launch := uint64(1); ; launch++ {
		for !atomic.CompareAndSwapUint32(arrived, 1, 0) {
			if s.over(calls) {
				return
			}
			time.Sleep(20 * time.Microsecond)
		}
		now := make([]*call, len(calls))
		for i, x := range calls {
			y := *x
			y.number |= launch
			y.input, y.output = append([]byte(nil), x.input...), make([]byte, len(x.output))
			y.factor.bits = append([]byte(nil), x.factor.bits...)
			now[i] = &y
		}
		s.meet(now)
		for i, x := range calls {
			copy(x.output, now[i].output)
		}
		atomic.StoreUint32(computed, 1)
	}
}

// over reports whether no graph with the calls can be launched any more.
func (s *Sim) over(calls []*call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing || calls[0].comm.destroyed
}

// Captures returns how many calls of communicators of a rank graphs have captured.
func (s *Sim) Captures(rank int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.captures[rank]
}
