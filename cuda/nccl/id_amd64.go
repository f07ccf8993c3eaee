package nccl

import (
	"encoding/binary"
	"unsafe"
)

// initRank passes the identity by value. System V puts it on the stack, behind the words of registers: six, of which the
// other arguments fill three.
func (l *Library) initRank(comm *uintptr, id *UniqueID, rank, size int) uintptr {
	words := append(make([]uintptr, 0, 22), uintptr(unsafe.Pointer(comm)), uintptr(size), uintptr(rank), 0, 0, 0)
	for i := 0; i < len(id); i += 8 {
		words = append(words, uintptr(binary.LittleEndian.Uint64(id[i:])))
	}
	return l.call(commInitRank, words...)
}
