//go:build !linux

package main

// hostBytes is the memory of this machine, 0 if that is not known.
func hostBytes() uint64 { return 0 }
