package nccl

// Handle returns a communicator as the library's own functions take it.
func (c *Comm) Handle() CommHandle { return c.handle }
