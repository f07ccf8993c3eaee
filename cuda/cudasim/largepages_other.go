//go:build unix && !linux

package cudasim

func preferLargePages([]byte) {}
