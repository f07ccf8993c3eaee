package gloo

import (
	"errors"
	"fmt"
)

// ErrProtocol is the error of bytes that no rank of the group sends.
var ErrProtocol = errors.New("not Gloo's protocol")

// Mismatch is the error when a peer's send and this rank's receive have different lengths, or the other way round.
type Mismatch struct {
	Slot         uint64
	Ours, Theirs int  // bytes
	Sends        bool // this rank sends
}

// Error names both sides.
func (e *Mismatch) Error() string {
	if e.Sends {
		return fmt.Sprintf("this rank sends %d bytes on slot %#x, the peer receives %d", e.Ours, e.Slot, e.Theirs)
	}
	return fmt.Sprintf("the peer sends %d bytes on slot %#x, this rank receives %d", e.Theirs, e.Slot, e.Ours)
}
