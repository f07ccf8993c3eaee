package nccl

import "unsafe"

// callWithID calls a function whose third parameter is an identity by value. On arm64 the caller copies a structure of this
// size and passes its address.
//
//go:uintptrescapes
func callWithID(at, comm, size uintptr, id *UniqueID, rank, config uintptr) Result {
	copied := *id
	return call(at, comm, size, uintptr(unsafe.Pointer(&copied)), rank, config)
}
