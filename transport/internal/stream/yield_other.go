//go:build !linux

package stream

import "runtime"

// yield lets another goroutine run.
func yield() { runtime.Gosched() }
