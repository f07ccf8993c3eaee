package tcp

import "time"

// stream is the bytes of one lane. Neither read nor write blocks.
type stream interface {
	// read fills the buffers in order with what is there; 0 without an error means nothing now, io.EOF that no more comes.
	read(bufs [][]byte) (int, error)
	// write takes what it can of the buffers in order; 0 without an error means nothing now.
	write(bufs [][]byte) (int, error)
	// finish ends this direction after what has been written.
	finish()
	// flushed says whether all written bytes have left, as far as this side can know.
	flushed() bool
	close()
}

// waiter sleeps until a stream that refused may do more, wake was called, or until has passed (zero: no limit).
type waiter interface {
	wait(until time.Time)
	wake()
	close()
}
