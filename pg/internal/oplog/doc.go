// Package oplog keeps account of a group's operations: how many are pending, what was done by type, and which functions
// hear of an operation's end. It knows neither groups nor operations; package pg tells it of both.
//
// Invariants:
//
//  1. An operation waits for no function that hears of it. Operations are told in the order in which they are put.
//  2. Without a registered function, Hooks costs an operation one atomic load. Counting takes one lock for all that
//     is counted, and no memory.
//  3. A waiting goroutine is woken when nothing was pending at some moment since it began to wait.
package oplog
