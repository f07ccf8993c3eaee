//go:build unix && !linux

package stream

func unpaced(int) {}
