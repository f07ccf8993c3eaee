// Package stream moves bytes over connections without blocking, and waits for many of them at once. Without TLS, on unix,
// sockets are read and written on the caller's goroutine. With TLS, and elsewhere, goroutines move bytes between a connection
// and bounded buffers.
//
// One goroutine at a time uses a stream and calls Wait. Wake may be called from any. The connection given to a Waiter belongs
// to the stream from then on.
package stream
