//go:build unix

package cudasim

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is how long processors have worked for this process.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
