//go:build !linux

package shm

import "runtime"

// CPUs returns a set of as many CPUs as the system has: bit i%8 of byte i/8 for CPU i.
func CPUs() []byte {
	cpus := make([]byte, (runtime.NumCPU()+7)/8)
	for i := range runtime.NumCPU() {
		cpus[i/8] |= 1 << (i % 8)
	}
	return cpus
}
