// Package flight is the flight recorder, a ring buffer of the last operations of all groups of a process. PyTorch's analyzer
// reads its dumps, and it reads the dumps of PyTorch's ranks.
//
// Invariants, numbered so that code and tests can cite them:
//
//  1. Recording an operation on a few tensors, from its call to its end and with DefaultDepth callers, takes less than a
//     microsecond. Once every slot has been used, it takes no memory.
//  2. A Recorder keeps nothing of the caller's: shapes and names are copied or are constants.
//  3. A dump may be taken at any time, from any goroutine, also while operations stand still.
//  4. The format is that of version 2.10: pickle protocol 2, or JSON. Keys of our own begin with colligo_: at the top failures
//     and time_ns, in sends and receives tag. A dump that is read is held against limits before memory is taken, and executes
//     nothing.
//  5. A closed group costs nothing once its operations are out of the ring. So memory is bounded by the number of open groups
//     and by the capacity. The time to make and close a group does not grow with their number.
//
// The package never opens a socket and never ends the process.
package flight
