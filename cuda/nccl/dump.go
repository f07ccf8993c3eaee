package nccl

import (
	"errors"
	"fmt"
	"strconv"
)

// Dump describes the communicator by names and values: rank, size, mode, state, and the library. State is "ready", "in progress",
// "aborted" or an error of the library. It may be called beside other calls, and waits for none of them.
//
// c10d: ncclCommDump. That is a C++ function of one vendor's library, which this binding cannot call.
func (c *Comm) Dump() map[string]string {
	state := "ready"
	busy, err := c.poll()
	switch {
	case errors.Is(err, errAborted):
		state = "aborted"
	case err != nil:
		state = err.Error()
	case busy:
		state = "in progress"
	}
	c.asking.Lock()
	defer c.asking.Unlock()
	mode := "blocking"
	if c.nonBlocking {
		mode = "nonblocking"
	}
	return map[string]string{"rank": strconv.Itoa(c.rank), "nranks": strconv.Itoa(c.size), "mode": mode, "state": state,
		"comm": fmt.Sprintf("%#x", uintptr(c.handle)), "version": c.library.Version(), "path": c.library.Path}
}
