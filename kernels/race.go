//go:build race

package kernels

import (
	"runtime"
	"unsafe"
)

// raceReduce tells the race detector, which does not see into assembly, what a vector loop reads and writes.
func raceReduce(dst []byte, src ...[]byte) {
	for _, s := range src {
		runtime.RaceReadRange(unsafe.Pointer(unsafe.SliceData(s)), len(dst))
	}
	runtime.RaceWriteRange(unsafe.Pointer(unsafe.SliceData(dst)), len(dst))
}
