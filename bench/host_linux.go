package main

import "syscall"

// hostBytes is the memory of this machine, 0 if that is not known.
func hostBytes() uint64 {
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}
