// Package store exchanges small keys and values so that ranks can meet before they have links: addresses, unique ids,
// counters, barriers. It holds the interface, the in-process store (Hash) and the view that scopes keys (Prefix). Derived
// makes a whole store of five methods of one's own.
// Package tcpstore serves the same interface over a socket, package filestore over a shared file.
//
// Invariants:
//
//  1. A value is copied on its way in and on its way out: the caller owns what it passes and what it gets.
//  2. A counter is stored as decimal text, so Get reads what Add wrote, and Add continues from a number that Set wrote.
//  3. Wait and Check take a key as present when it has a value or a non-empty queue. Values and queues with one key are
//     apart otherwise, so a program uses a key for one of the two. Get of a key that only a queue has is an error or an
//     empty value. So is Get of a key that another rank deletes at the same time.
//  4. A call that blocks ends when its key arrives, its context ends, the timeout passes or the store closes. The
//     timeout counts only where the context has no deadline; zero means for ever.
//  5. Every method may be called by many goroutines at once; one that waits never holds up one that does not.
//
// The package never opens a socket or a file, never reads the environment and never starts a goroutine.
package store
