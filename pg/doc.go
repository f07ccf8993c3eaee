// Package pg forms groups of ranks and runs collectives and messages between them: what c10d's process groups are to
// PyTorch. Init makes the default group from the environment of torchrun, Slurm, Open MPI or Kubernetes, from a URL or
// from a store; NewGroup makes smaller ones.
//
// Each operation comes twice: the blocking call runs its plan on the caller's own goroutine, and the one that ends in
// Async returns a Work. Both take a context: its deadline, if it has one, takes the place of the group's timeout for this
// operation, and cancelling it fails the operation and with it the group.
//
// Invariants, numbered so that code and tests can cite them:
//
//  1. Collectives of a group run one after the other in the order of their calls, which must be the same on all ranks.
//     Sends and receives are matched by peer and tag, and go on beside them.
//  2. One goroutine at a time drives a group: a blocking caller, or one started for pending Async calls. It advances
//     everything that is pending, so no operation waits for another goroutine to be scheduled.
//  3. A warm blocking collective on contiguous tensors allocates nothing.
//  4. Every frame carries what was called. A rank that takes a frame of another call fails with an error that names both,
//     and tells every peer.
//  5. The first error of a group is the cause of all later ones, on all ranks: it travels on the control channel, past
//     whatever is stuck. After it the group can only be closed.
//  6. On a timeout the rank asks its peers where they are and says on one line who is missing.
//  7. Results do not depend on timing: one shape gives one plan, and reductions happen in plan order.
//  8. Three limits have three names: ConnectTimeout, Timeout (of one operation), StoreTimeout.
//  9. A group of one rank has no mesh and touches no peer.
//
// The package reads the environment in one place, fromEnvironment. It never ends the process.
package pg
