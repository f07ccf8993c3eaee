// Package pg forms groups of ranks and runs collectives and messages between them: what c10d's process groups are to
// PyTorch. Init makes the default group from the environment of torchrun, Slurm, Open MPI or Kubernetes, from a URL or
// from a store; NewGroup, NewSubgroups and SplitGroup make smaller ones, and Shrink makes one of the ranks that are left
// when others have died. There is no default group that functions take by themselves: a program keeps what Init returned.
//
// Each operation comes twice: the blocking call runs its plan on the caller's own goroutine, and the one that ends in
// Async, c10d's async_op, returns a Work. Both take a context: its deadline, if it has one, takes the place of the group's
// timeout for this operation, and cancelling it fails the operation and with it the group. What a device has been given is not
// cancelled; the deadline stays.
//
// Coalesce launches several operations as one. OnCompletion calls a hook after each operation, and Work.Then what follows
// one.
//
// Packages beside it: object moves Go values, sparse sums tensors of which ranks have some rows, ddp reduces the gradients of data-parallel training, flight records operations and reads PyTorch's
// records, trace finds out from the records of a job what went wrong, debug shows a running group over HTTP, pickle is the
// format of both, and pgtest runs many ranks in a test.
//
// Invariants, numbered so that code and tests can cite them:
//
//  1. Collectives of a group run one after the other in the order of their calls, which must be the same on all ranks.
//     Sends and receives are matched by peer and tag, and go on beside them; MonitoredBarrier passes them all.
//  2. One goroutine at a time drives a group: a blocking caller, or one started for pending Async calls. It advances
//     everything that is pending, so no operation waits for another goroutine to be scheduled.
//  3. A warm blocking collective on contiguous tensors allocates nothing.
//  4. Every frame carries what was called. A rank that takes a frame of another call fails with an error that names both,
//     and tells every peer. Where tensors of a block share a plan their lengths are part of that.
//  5. The first error of a group is the cause of all later ones, on all ranks: it travels on the control channel, past
//     whatever is stuck. After it the group can only be dumped, shrunk and closed.
//  6. On a timeout the rank asks its peers where they are and says on one line who is missing.
//  7. Results do not depend on timing: one shape gives one plan, and reductions happen in plan order.
//  8. Three limits have three names: ConnectTimeout, Timeout (of one operation), StoreTimeout.
//  9. A group of one rank has no mesh and touches no peer.
//  10. Every operation of the program is recorded, counted and told to the hooks, whatever carries it out: when it is
//     called, when its turn comes, and when it is over. What a group does for itself is not, nor is MonitoredBarrier. A warm
//     blocking call pays for it less than a microsecond and no memory.
//  11. Hooks, callbacks and dumps hold up no operation. A hook may start operations; it must not call Close and WaitPending,
//     which wait for hooks.
//  12. A group that has failed tells its peers and, through its store if so configured, those that no note reaches; writes
//     what is recorded, and why it failed; and ends what is pending on devices. See Config for the switches and Settings for their variables.
//  13. What other ranks announce, sizes of objects and of sparse tensors, is held against Config.MaxObject before memory is
//     taken for it.
//  14. While a group forms its ranks find one another by their bootstrap info in the store. It is removed when the group has
//     formed, but for the default group's, which stays until the group is closed. A rank that gives up meanwhile leaves the
//     reason in its bootstrap info, and tells it to the ranks that it is linked with.
//
// The package reads the environment in one place, Init: launchers' variables tell which rank this process is, Settings lists
// the rest.
// It never ends the process, but for the watchdog's modes TearDown and SkipCleanUp, which nobody is in unasked.
package pg
