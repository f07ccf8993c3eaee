// Package streamorder keeps the operations of one group on one device in order. It decides on which stream an operation runs
// and what the stream waits for. It bounds the operations in flight, and knows when each is done. The backends in cuda/peer and cuda/staged embed an Order and
// give it a Carrier, which enqueues the single operation.
//
// Invariants:
//
//  1. Operations of one queue run one after the other. When two that follow each other have different streams, the later
//     stream waits for the earlier one by an event.
//  2. An operation that a graph captures waits for operations that the same graph has captured before. One that is not
//     captured waits for those that were not.
//  3. Commands in flight are bounded. After every throttleWeight commands an event is recorded, and the host waits for the
//     oldest of throttleEvents events before it records that one again.
//  4. Only operations wait for Order.mu without a limit. The call that holds it may wait for the throttle as long as the device
//     takes, so the watchdog, Finished and Abort try the lock.
//  5. Order.asking is never held while something is waited for.
//
// The package launches no kernel, chooses no algorithm and reads no tensor.
package streamorder
