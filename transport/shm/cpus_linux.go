package shm

import "bytes"

// CPUs returns the set of CPUs on which this process may run: bit i%8 of byte i/8 for CPU i.
func CPUs() []byte {
	all := ownCPUs()
	return bytes.TrimRight(all[:], "\x00")
}
