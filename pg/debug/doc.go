// Package debug lets a running group be asked over HTTP what it does: who waits for whom, the flight recorder's dump, and metrics
// for Prometheus. It is apart from pg so that programs which do not ask do not link an HTTP server.
//
//	http.Handle("/debug/colligo/", debug.Handler(g))
//
// Invariants:
//
//  1. No request changes the group, or waits for an operation. The parts waiting and waiting_json send each peer one question,
//     which the peer answers whatever its program does; no other part makes the group communicate.
//  2. The package starts no server and registers nothing: where the handler is reached, and by whom, is the program's affair.
package debug
