// Package watchdog looks at what the devices of a group do. So the recorder, the metrics and the hooks hear of operations
// that nobody waits for, and an operation that is late ends the group.
//
// One goroutine per group looks, while anything is pending on a device:
//
//  1. For each queue (collectives, sends, receives) it asks the oldest operation whether it is over, and concludes the ones
//     that are. A backend that is a Tracker is asked once for all of its blocking calls. Then it concludes the coalescing blocks of
//     which all operations are over.
//  2. It tells the group of operations that stand still, and of those that can never end, because a peer has left the group before them.
//  3. It tells the group of the first asynchronous operation that has passed its deadline.
//  4. It sleeps: a millisecond after something moved, and up to 50 while nothing does.
//
// Locks: a call adds to its queue without a lock, by the invariants of type queue. Devices.mu guards what else is known of the queues. It is
// held for some instructions only, for a block and a queue that grows take it: the goroutine copies what it looks at. The deadlines have a
// lock of their own, which asynchronous calls take.
//
// Invariants:
//
//  1. The cost of a look grows with the operations that have ended since the last, not with the pending ones.
//  2. Operations of one queue are concluded in their order.
//  3. After Close everything is concluded. Operations that the devices did not finish get the error of the group.
package watchdog
