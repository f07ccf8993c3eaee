//go:build unix && !linux

package stream

// congestion is a socket's congestion control, which stays that of the host.
type congestion struct{ within bool }

func (*congestion) choose(int, int) {}
