// Package debug lets a running group be asked over HTTP what it does: the flight recorder's dump, and where the group
// stands. It is apart from pg so that programs which do not ask do not link an HTTP server.
//
//	http.Handle("/debug/colligo/", debug.Handler(g))
//
// Invariants:
//
//  1. No request changes the group, makes it communicate, or waits for an operation.
//  2. The package starts no server and registers nothing: where the handler is reached, and by whom, is the program's affair.
package debug
