package cudasim

import (
	"time"

	"github.com/colligo-go/colligo/cuda"
)

// Config says what is simulated. The zero value is one device like an H200 with little memory.
type Config struct {
	Devices int    // 1 if 0
	Seed    uint64 // of the order in which operations run
	Memory  int    // bytes of one device, 1 GiB if 0; it is taken from the machine only when it is written

	QueueDepth int // operations that a stream holds, 1024 if 0; one more blocks the call and its process
	// Patience is how long nothing may move while a call waits before it is a deadlock, 5 s if 0. Where no call waits and operations
	// are enqueued, it is four times as long. For the host may poll, or be about to make the call that lets them go on.
	Patience time.Duration
	// Quiet is how long the host makes no call before the devices go on by themselves, 1 ms if 0. Negative is for ever:
	// then only calls make the devices run, which is repeatable.
	Quiet time.Duration

	// EagerLoading puts every function on the device when its module is loaded. Without it, as in the real driver, the
	// first FuncLoad or launch does, waiting for the device to be idle with the process locked.
	EagerLoading bool
	// HostPerProcess says that an operation that one process has seen completed orders nothing in another, unless Sim.Meet is
	// called. Without it all host code counts as one actor. Then processes may talk behind cudasim's back without false races.
	// But a wait that is missing on a device can be hidden by a wait on a host.
	HostPerProcess bool
	// Uninitialized reports reads of device memory that no actor has written.
	Uninitialized bool

	Capability [2]int                        // compute capability, 9.0 if zero
	Attributes map[cuda.Attribute]int        // in place of an H200's
	CanAccess  func(device, peer int) bool   // which devices reach which, all if nil
	P2P        func(src, dst int) (rank int) // performance rank, 0 if nil
}

func (c Config) withDefaults() Config {
	if c.Devices == 0 {
		c.Devices = 1
	}
	if c.Memory == 0 {
		c.Memory = 1 << 30
	}
	if c.QueueDepth == 0 {
		c.QueueDepth = 1024
	}
	if c.Patience == 0 {
		c.Patience = 5 * time.Second
	}
	if c.Quiet == 0 {
		c.Quiet = time.Millisecond
	}
	if c.Capability == [2]int{} {
		c.Capability = [2]int{9, 0}
	}
	if c.CanAccess == nil {
		c.CanAccess = func(int, int) bool { return true }
	}
	if c.P2P == nil {
		c.P2P = func(int, int) int { return 0 }
	}
	return c
}
