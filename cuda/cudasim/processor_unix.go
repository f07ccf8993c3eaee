//go:build unix

package cudasim

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is how long processors have worked for this process.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(fmt.Sprintf("cudasim: getrusage of this process: %v", err)) // else the limit of a test would never come
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
