// Package gloo carries a group's operations as PyTorch's ProcessGroupGloo does, so that its ranks and ours are of one job. It is a
// host.Wire: the progress engine, deadlines and records are those of every group on the CPU.
//
// Invariants:
//
//  1. Tags are taken in the order in which collectives begin, as many as PyTorch takes. A call that is refused takes none.
//  2. A group does nothing over the wire that the program has not called: what peers do not know would meet their next call.
//  3. The differences between PyTorch's versions are in Version and nowhere else.
//
// Peers see an error of this rank only in the end of its connections.
package gloo
