package cudasim

import "golang.org/x/sys/unix"

// threadID names the calling operating system thread.
func threadID() uint64 { return uint64(unix.Gettid()) }
