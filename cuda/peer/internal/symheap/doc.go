// Package symheap is the symmetric heap of a group on GPUs. It is memory on every rank's device, laid out alike on all ranks
// and mapped into every peer. A process maps its own ranks' heaps by address, and those of other processes by an IPC handle.
//
//	layout.go    where things lie in a heap, as a pure function of size and memory
//	heap.go      the memory itself
//	meet.go      ranks exchange addresses and map one another's heaps
//	reach.go     what the ranks find out together about the links between their devices
//	selftest.go  every rank writes into every heap and verifies what arrived in its own
//	window.go    registered memory: tensors of the program that all ranks have mapped
//	processpeers.go  the ranks of a group in one process
//	leave.go     ranks unmap before anybody frees
//
// Invariants:
//
//  1. All ranks compute the same layout, and refuse to meet where layout or options differ.
//  2. Every write into a rank's heap is awaited by an operation of that rank, so an idle rank's heap is its own.
//  3. Memory is freed only when no process has it mapped, except after a failure or when a peer does not come in time.
//
// The package chooses no algorithm and orders no operations. It is used with the lock of the group's stream order held,
// except while the group opens and closes.
package symheap
