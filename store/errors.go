package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Sentinels to branch on with errors.Is.
var (
	// ErrTimeout is what every *TimeoutError is.
	ErrTimeout = errors.New("wait timeout")
	// ErrQueueEmpty is what QueuePop without block returns for an empty queue.
	ErrQueueEmpty = errors.New("queue is empty")
	// ErrClosed is what calls on a closed store return.
	ErrClosed = errors.New("store is closed")
	// ErrNotSupported is what a store returns for an operation that its format lacks.
	ErrNotSupported = errors.New("not supported by this store")
)

// TimeoutError says which keys did not arrive in what time. It is both ErrTimeout and context.DeadlineExceeded.
type TimeoutError struct {
	After time.Duration // from the start of the call to its deadline
	Keys  []string      // as the store names them, prefixes included
}

// namedKeys bounds how many keys an error spells out.
const namedKeys = 8

// Error spells the wait as PyTorch's TCPStore does, so that one search finds both.
func (e *TimeoutError) Error() string {
	shown, rest := e.Keys, ""
	if len(shown) > namedKeys {
		shown, rest = shown[:namedKeys], fmt.Sprintf(" and %d more", len(shown)-namedKeys)
	}
	text := fmt.Sprintf("wait timeout after %dms", e.After.Milliseconds())
	if len(shown) == 0 {
		return text
	}
	return fmt.Sprintf("%s, keys: %s%s", text, strings.Join(shown, ", "), rest)
}

// Is makes errors.Is find ErrTimeout and context.DeadlineExceeded.
func (e *TimeoutError) Is(target error) bool {
	return target == ErrTimeout || target == context.DeadlineExceeded
}

// Timeout reports true, as the net package's errors do.
func (e *TimeoutError) Timeout() bool { return true }
