//go:build !unix

package cudasim

import "time"

var start = time.Now()

// processorTime is how long the process has run, for want of how long processors have worked for it.
func processorTime() time.Duration { return time.Since(start) }
