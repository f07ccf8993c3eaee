// Package staged is the backend for GPUs of one group that cannot reach each other's memory. They lack a link, are on several
// hosts, or are too many. Every operation goes through pinned host memory and the transport that links the ranks on the CPU.
// Package peer opens it in place of its own backend, on all ranks alike, and says so once.
//
// Each queue of operations has a pipeline. A tensor travels through it in rounds, each as large as a slot of pinned memory:
//
//	down   copies from the device into the slot
//	       the CPU's collective on the slot, of a group of its own, so that its order is not the program's
//	up     copies from the slot to the device
//
// While the CPU has one round, the next is on its way down and the last on its way up. Both ways are enqueued whole, and meet
// the CPU at words of host memory.
//
// The CPU computes the sum of each round: the same on all ranks and in every run. If one round has the whole tensor, the
// order of summation is that of the whole tensor on the CPU. That holds up to 8 MiB by default.
//
// Invariants:
//
//  1. Once Run has returned, the host calls no driver for the operation: the worker of a pipeline looks at words of host
//     memory. Another goroutine may hold the driver's lock until the device is idle.
//  2. A slot is filled again only after the copies that empty it are done: the way down waits for the slot's event.
//  3. All ranks run the same rounds of an operation. A rank joins, without its device, the rounds that only peers have.
//  4. The device is told of an operation's last round when all rounds are over, for a rank whose device is done may leave.
//
// Calls look as they do with the native backend, but a graph cannot capture them, for the CPU takes part.
package staged
