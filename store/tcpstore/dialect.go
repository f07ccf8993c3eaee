package tcpstore

import (
	"fmt"

	"github.com/colligo-go/colligo/store"
)

// Dialect is the byte format that a version of PyTorch speaks.
type Dialect uint8

// The dialects. A server and its clients must have the same: none of them can tell the other.
const (
	Torch2   Dialect = iota // of PyTorch 2.1 and later
	Torch113                // of PyTorch 1.13: no greeting, other command bytes, and neither queues nor lists of keys
)

// oldCommands are the command bytes of Torch113, one more than each, so that 0 means that there is none. It has one that asks
// to watch a key, too, which only C++ programs use.
var oldCommands = [commands]byte{cmdSet: 1, cmdCompareSet: 2, cmdGet: 3, cmdAdd: 4, cmdCheck: 5, cmdWait: 6, cmdNumKeys: 7, cmdDelete: 9}

// code returns the byte of a command, and whether the dialect has it.
func (d Dialect) code(cmd byte) (byte, bool) {
	if d == Torch2 {
		return cmd, true
	}
	code := oldCommands[cmd]
	return code - 1, code > 0
}

// command returns the command that a byte stands for; false if for none.
func (d Dialect) command(code byte) (byte, bool) {
	if d == Torch2 {
		return code, true
	}
	for cmd, c := range oldCommands {
		if c > 0 && c-1 == code {
			return byte(cmd), true
		}
	}
	return 0, false
}

// has refuses a command that the server would not know.
func (c *Client) has(name string, cmd byte) error {
	if _, ok := c.dialer.dialect.code(cmd); !ok {
		return fmt.Errorf("tcpstore: %s: %w of PyTorch 1.13", name, store.ErrNotSupported)
	}
	return nil
}
