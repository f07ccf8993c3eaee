// Package op has one operation of a group as one value: an Op, from its checked arguments to its end.
//
// The caller of a collective, a send or a receive makes an Op by one of the methods that check arguments (AllReduce, Send,
// …). Package pg gives it a number and records it, a backend runs it, and a Work shows it to the program. All of them hold
// the same Op by pointer.
//
// Invariants:
//
//  1. An Op has at most 256 bytes. Fields that few operations need lie behind one pointer, see Rare.
//  2. The arguments never change after they were checked. Set says what is wrong with them.
//  3. Nothing here waits, locks or knows a transport.
package op
