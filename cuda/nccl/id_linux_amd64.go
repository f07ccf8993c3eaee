package nccl

import (
	"encoding/binary"
)

// callWithID calls a function whose third parameter is an identity by value. System V puts it on the stack, behind the words
// of registers: six, of which the other parameters fill four.
//
//go:uintptrescapes
func callWithID(at, comm, size uintptr, id *UniqueID, rank, config uintptr) Result {
	words := append(make([]uintptr, 0, 22), comm, size, rank, config, 0, 0)
	for i := 0; i < len(id); i += 8 {
		words = append(words, uintptr(binary.LittleEndian.Uint64(id[i:])))
	}
	return call(at, words...)
}
