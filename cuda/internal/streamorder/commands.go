package streamorder

import "github.com/colligo-go/colligo/cuda"

// Commands enqueues commands of the driver until one fails. After the first error every method does nothing, so nothing is
// enqueued behind a command that is missing. The zero Err means that all have been enqueued.
type Commands struct {
	Thread cuda.Thread
	Err    error
}

// On begins a sequence of driver commands on a thread.
func On(t cuda.Thread) Commands { return Commands{Thread: t} }

// Do calls f unless a command has failed.
func (c *Commands) Do(f func() error) {
	if c.Err == nil {
		c.Err = f()
	}
}

// Copy enqueues a copy of so many bytes.
func (c *Commands) Copy(dst, src cuda.Pointer, bytes int, s cuda.Stream) {
	if c.Err == nil {
		c.Err = c.Thread.Copy(dst, src, bytes, s)
	}
}

// Set32 enqueues that count words become a value.
func (c *Commands) Set32(at cuda.Pointer, value uint32, count int, s cuda.Stream) {
	if c.Err == nil {
		c.Err = c.Thread.Set32(at, value, count, s)
	}
}

// Wait32 makes a stream wait until a word is at least a value.
func (c *Commands) Wait32(s cuda.Stream, at cuda.Pointer, value uint32) {
	if c.Err == nil {
		c.Err = c.Thread.Wait32(s, at, value)
	}
}

// Write32 makes a stream write a word.
func (c *Commands) Write32(s cuda.Stream, at cuda.Pointer, value uint32) {
	if c.Err == nil {
		c.Err = c.Thread.Write32(s, at, value)
	}
}

// Record records an event on a stream.
func (c *Commands) Record(e cuda.Event, s cuda.Stream) {
	if c.Err == nil {
		c.Err = c.Thread.Record(e, s)
	}
}

// WaitEvent makes a stream wait for an event.
func (c *Commands) WaitEvent(s cuda.Stream, e cuda.Event) {
	if c.Err == nil {
		c.Err = c.Thread.WaitEvent(s, e)
	}
}

// Follow makes stream after wait for all that is on stream before now.
func (c *Commands) Follow(after, before cuda.Stream, e cuda.Event) {
	if c.Err == nil {
		c.Err = Follow(c.Thread, after, before, e)
	}
}

// Synchronize waits on the host until a stream is empty.
func (c *Commands) Synchronize(s cuda.Stream) {
	if c.Err == nil {
		c.Err = c.Thread.Synchronize(s)
	}
}

// Follow makes stream after wait for all that is on stream before now.
func Follow(t cuda.Thread, after, before cuda.Stream, e cuda.Event) error {
	if err := t.Record(e, before); err != nil {
		return err
	}
	return t.WaitEvent(after, e)
}
