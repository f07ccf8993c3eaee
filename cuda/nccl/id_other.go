//go:build !amd64

package nccl

import "unsafe"

// initRank passes the identity by value: arm64 has the caller copy a structure of this size and pass its address.
func (l *Library) initRank(comm *uintptr, id *UniqueID, rank, size int) uintptr {
	copied := *id
	return l.call(commInitRank, uintptr(unsafe.Pointer(comm)), uintptr(size), uintptr(unsafe.Pointer(&copied)), uintptr(rank))
}
