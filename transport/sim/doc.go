// Package sim moves frames between ranks of one process: a fast transport without sockets, and a network that misbehaves
// as a test wants it to.
//
//  1. A Net without delays, faults and trace hands frames over in shared memory: no timer, no goroutine, no allocation
//     once its slots have been used.
//  2. Otherwise every frame, note and loss is scheduled, at least a nanosecond ahead. Delivery is in the order of time,
//     group, source, destination, lane and index. Every choice is a hash of the seed and of these, never of the order in
//     which goroutines ran. In a testing/synctest bubble time is virtual, so the same seed gives the same trace.
//  3. Lanes, and the notes to a peer, are in order under every fault. Frames of different lanes overtake one another only where Config.Reorder or
//     Config.Delay lets them.
//  4. A lane holds Config.Slots frames, in flight and delivered together.
//  5. A fault speaks about global ranks: the rank in the group that Open is called for, or the one given to OpenAs.
//  6. A pair of ranks that have not looked at their link costs nothing, so ten thousand ranks fit in a process.
//
// Everything that waits, waits on channels and timers of package time. The package never reads the environment and never
// looks at a payload, except to corrupt it when told to.
package sim
