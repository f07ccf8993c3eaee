// Package pg forms groups of ranks and runs collectives and messages between them, as c10d's process groups do for PyTorch.
//
// Init makes the default group. It takes its place from the environment of torchrun, Slurm, Open MPI or Kubernetes, from a
// URL, or from a store. NewGroup, NewSubgroups, SplitGroup and SplitByColor make smaller groups, and Regroup makes one of the
// ranks that are left when others have died. Functions take no default group by themselves: a program keeps what Init
// returned.
//
// Each operation comes twice. The blocking call runs its plan on the caller's own goroutine. The call that ends in Async,
// c10d's async_op, returns a Work. Coalesce launches several operations as one. OnCompletion calls a hook after each
// operation, and Work.Then chains a callback to one.
//
// # Tensors
//
// Lengths, counts and splits are in elements. All tensors of a call have one element type and lie on one device. On the CPU
// they may be strided views of any shape. On a device they are contiguous, or dense with the same strides on all ranks, such as
// channels_last. An output shares memory with an input only where
// the comment on the call allows it. A blocking call has done with its tensors when it returns, and an asynchronous one when
// its Work is done.
//
// # Devices and streams
//
// Tensors choose the backend. On the CPU a blocking call returns when the result is there. On a GPU it returns when the
// operation is enqueued on the caller's stream; commands behind it on that stream see the result. The context tells the
// stream, as OnStream of package cuda/peer says. An asynchronous call runs on a stream of the group, which first waits for
// the caller's. Work.Wait makes the caller's stream wait for it, and Work.Synchronize blocks.
//
// # Contexts and errors
//
// A deadline of the context takes the place of the group's timeout for this operation. Cancelling the context fails the
// operation and with it the group. Commands that a device has been given are not cancelled; their deadline stays.
//
// A wrong argument, a device without a backend, or a rank outside the group, is an error of the call alone. Nothing was
// sent, and no peer hears of it. Any other error of an operation ends the group on all ranks, by invariant 5. Errors are of
// type *colligo.OpError, and say who, where and how much. They are told apart by errors.Is with colligo.ErrTimeout,
// ErrPeerLost, ErrMismatch, ErrClosed and ErrCorrupt, and with ErrAborted and ErrNotMember of this package.
//
// # Invariants
//
// Invariants, numbered so that code and tests can cite them:
//
//  1. Collectives of a group run one after the other in the order of their calls, which must be the same on all ranks. Sends
//     and receives are matched by peer and tag, and go on beside them; MonitoredBarrier passes them all.
//  2. One goroutine at a time runs a group's progress engine: a blocking caller, or one started for pending Async calls. It
//     advances everything that is pending, so no operation waits for another goroutine to be scheduled.
//  3. A warm blocking collective on contiguous tensors allocates nothing.
//  4. Every frame carries what was called. A rank that takes a frame of another call fails with an error that names both,
//     and tells every peer. Where tensors of a block share a plan, their lengths are part of that.
//  5. The first error of a group is the cause of all later ones, on all ranks. It travels on the control channel, past
//     everything that is stuck. After it the group can only be dumped, regrouped, shrunk and closed.
//  6. On a timeout the rank asks its peers where they are and says on one line who is missing.
//  7. Results do not depend on timing: one shape gives one plan, and reductions happen in plan order.
//  8. Three limits have three names: ConnectTimeout, Timeout (of one operation), StoreTimeout.
//  9. A group of one rank has no mesh and touches no peer.
//  10. Every operation of the program is recorded, counted and told to the hooks, on every device. This happens when it is
//     called, when its turn comes, and when it is over. Operations of the group's own are left out, and so is
//     MonitoredBarrier. A warm blocking call pays for it less than a microsecond and no memory.
//  11. Hooks, callbacks and dumps hold up no operation. A hook may start operations; it must not call Close and WaitPending,
//     which wait for hooks.
//  12. A group that has failed tells its peers. Through its store, if so configured, it tells ranks that no note reaches. It
//     writes what is recorded, and why it failed, and ends what is pending on devices. Config.Watchdog and Config.Recorder
//     have the switches, and Settings their variables.
//  13. Sizes of objects and of sparse tensors that other ranks announce are held against Config.MaxObject before memory is
//     taken for them.
//  14. While a group forms its ranks find one another by their bootstrap info in the store. It is removed when the group has
//     formed, but for the default group's, which stays until the group is closed. A rank that gives up meanwhile leaves the
//     reason in its bootstrap info, and tells it to the ranks that it is linked with. Every rank that waits looks for such
//     reasons, and returns the first one. When its links are open a rank looks no more: the control channel tells it all.
//
// The package reads the environment in one place, Init. Launchers' variables tell which rank this process is; Settings lists
// the rest. It never ends the process, but for the watchdog's modes TearDown and SkipCleanUp, which are never taken unasked.
//
// # How to read it
//
// Start with Group.do in do.go: its six numbered steps are the life of every operation on every device. Then carriers.go has
// the places that carry operations, block.go does the same for several operations at once, and work.go is what an
// asynchronous call returns. One file for each collective has its calls: allreduce.go, broadcast.go and so on; pairs.go and
// p2p.go have messages. Groups are made in init.go, open.go, newgroup.go, subgroups.go and shrink.go. They end in fail.go,
// failurehandler.go and Group.Close.
//
// The parts have packages of their own:
//
//   - internal/op is one operation as a value, with the checks of its arguments.
//   - internal/host is the CPU backend: progress engine, messages, choice of plans.
//   - internal/bootstrap forms groups, and internal/control carries messages between ranks outside operations.
//   - internal/diagnose words the line of a timeout, and internal/watchdog follows operations on devices.
//   - internal/oplog has records, hooks and counters.
//   - backend is what a backend for devices implements, and tuning has the rules by which plans are chosen.
//
// Beside them are packages for programs:
//
//   - object moves Go values, and sparse sums tensors of which each rank has some rows.
//   - ddp reduces the gradients of data-parallel training.
//   - flight records operations and reads PyTorch's records; trace finds out from the records of a job what went wrong;
//     pickle is their format.
//   - debug shows a running group over HTTP, and pgtest runs many ranks in a test.
package pg
