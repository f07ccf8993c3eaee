// Package host carries out a group's operations on the CPU: the backend of tensors in memory of the process. It picks a
// planner for each collective, steps through its plan, and matches messages.
//
// The way of an operation:
//
//  1. Enqueue takes it in the order of the group.
//  2. One goroutine runs the progress engine: the blocking caller itself, or one that is started for asynchronous calls. It
//     takes over what was enqueued and advances everything that is pending. So no operation waits for another goroutine to
//     be scheduled.
//  3. A collective begins when those before it are over: its plan is made or found, its tensors are packed.
//  4. The engine moves its frames. Sends and receives go on beside it.
//     Over shared memory and TCP, where cores are left, the worker moves the second half of a long collective meanwhile.
//  5. When nothing moves, the progress engine waits in the mesh until a frame comes or a deadline ends.
//  6. The end of each operation is told to the group. A blocking caller returns when its own operation is over, and leaves
//     the rest to a new goroutine.
//
// Locks: Backend.mu guards the queue, and the flag that says that the progress engine runs. Everything else belongs to the
// goroutine that runs it. While the worker is busy, its half of the plan and its lane are the worker's.
//
// Invariants:
//
//  1. Only the first collective advances; one plan runs at a time.
//  2. A warm blocking collective on contiguous tensors allocates nothing.
//  3. A frame of another call than this rank's ends the group with an error that names both.
//  4. Messages of one peer and tag are received in the order in which they were sent. The memory for messages that no receive
//     has asked for is bounded.
package host
