package nccl

import (
	"errors"
	"fmt"
	"strconv"
)

// Communicators implements backend.Communicating. The group's communicator has the name of group and device, the others more behind it.
func (b *ncclBackend) Communicators() map[string]map[string]string {
	if !b.mu.TryLock() { // who holds it may wait for the library
		return nil
	}
	defer b.mu.Unlock()
	name, all := fmt.Sprintf("%s/%v", b.group.Name(), b.device), map[string]map[string]string{}
	if b.main != nil {
		all[name] = b.main.Dump()
	}
	if b.levels != nil {
		all[fmt.Sprintf("%s/rail %d", name, b.levels.index)] = b.levels.rail.Dump()
	}
	for peer, c := range b.pairs {
		all[fmt.Sprintf("%s/with %d", name, peer)] = c.Dump()
	}
	return all
}

// Dump describes the communicator by names and values: rank, size, mode, state, and the library. State is "ready", "in progress",
// "aborted" or an error of the library. It may be called beside other calls, and waits for none of them.
//
// c10d: ncclCommDump. That is a C++ function of one vendor's library, which this binding cannot call. Where PyTorch is built with it, its
// result is nccl_comm_state in dumps of the flight recorder, as Dump's is here.
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
