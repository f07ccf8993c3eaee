// Package plan holds the schedules of collectives as values. A Plan is what one rank does in one collective: lanes of steps.
// A step sends a span of elements to a peer, or receives one from a peer (and reduces it into place). It may do both at
// once, or the same locally. Packages ring and tree compute plans from a Shape; an engine walks through them.
//
// Invariants:
//
//  1. A plan is a pure function of its Shape. All ranks of a group compute theirs alone and the plans fit together.
//  2. The exchange rule: a step that sends and receives does both at once and is over when both are. Nothing else may be
//     assumed of a link. Check lets a step's send end only when the peer has reached the receive that takes it. So a plan
//     that passes needs no buffering anywhere, and cannot deadlock on a link that has some.
//  3. Lanes are independent and wait for each other nowhere. The steps of one lane run in order. The n-th receive from a
//     peer on a lane takes the elements of that peer's n-th send to this rank on that lane.
//  4. A step that sends nothing still has a frame if its To names a peer: a barrier is made of empty frames. It tells
//     of every start of which its sender has heard by then, or of the sender's alone where the plan Starts.
//  5. No step writes what the same step reads to send. A step may reduce in place: Dst may equal Acc.
//  6. Every reduction ends with exactly one step marked Last for each element of the result on each rank that reduces it.
//     Results sent after that are only copied. The finishing of an average (division by size) happens there.
//  7. Results are bitwise the same on all ranks. For one element, every rank's result comes from one tree of two-operand
//     reductions, up to the order of the two operands.
//  8. No step writes In, unless Out lies over it, and no lane touches what another lane of the same rank writes.
//  9. Fields that mean nothing in a step are zero, so that a plan is the same after its text form is read back.
//
// Nothing here waits, allocates buffers, or knows a transport.
package plan
