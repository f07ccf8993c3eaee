// Package tcpstore is a store behind a TCP socket, in the byte format of PyTorch 2.11's TCPStore. A Go client may talk to a
// PyTorch server, and PyTorch ranks to a Go server. Both may share one job.
//
// With Dialect Torch113 client and server speak to PyTorch 1.13 instead, which has no greeting and numbers the commands otherwise.
//
// The format: a request is one command byte and its arguments. Integers are little-endian, 8 bytes wide except the two
// nonces of 4 bytes; a string is its length (8 bytes) and its bytes. Replies have no header and come in the order of
// the requests. User keys travel with a leading slash; only the workers' counter "init/" has none.
//
// Invariants of the server:
//
//  1. A length or a count is checked against its limit before memory is taken. Memory grows with the bytes that arrive, not
//     with the length that was announced.
//  2. A client that sends something wrong, or does not send what it should, harms only its own connection. That is closed,
//     with one log line.
//  3. A connection that ends takes its pending waits with it.
//  4. A reply is never written with the state locked, so a client that does not read holds up nobody.
//
// Invariants of the client:
//
//  5. A connection has one request outstanding, CANCEL_WAIT excepted.
//  6. Requests of one goroutine are answered as if there were one connection: everything but waiting goes over the
//     first one. A wait uses it too while nobody else wants it, else it moves to a connection dialled for it, which is
//     kept for later waits. So a client has one connection plus, at most, one for each call that waits at one time.
//  7. A server that is lost is an error that names its address, for every call under way and every later one. The
//     client never goes on with another server at that address, whose keys would be another run's.
//
// The package never reads the environment and never falls back from TLS.
package tcpstore
