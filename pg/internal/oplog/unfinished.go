package oplog

import (
	"fmt"
	"strings"
	"sync"

	"github.com/colligo-go/colligo/pg/internal/op"
)

// Unfinished names the operations that fail while a group is being closed, so that none ends in silence.
type Unfinished struct {
	mu    sync.Mutex
	open  bool
	names []string
	more  int // beyond names
}

// mostUnfinished bounds the operations that are named.
const mostUnfinished = 4

// Watch names operations that fail from now on.
func (u *Unfinished) Watch() {
	u.mu.Lock()
	u.open = true
	u.mu.Unlock()
}

// add notes an operation that has failed.
func (u *Unfinished) add(t op.Type, number uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case !u.open:
	case len(u.names) < mostUnfinished:
		u.names = append(u.names, fmt.Sprintf("%s #%d", t.Call(), number))
	default:
		u.more++
	}
}

// String lists the operations, such as "all_reduce #3, recv #1 and 2 more". It is empty if there are none.
func (u *Unfinished) String() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := strings.Join(u.names, ", ")
	if u.more > 0 {
		s += fmt.Sprintf(" and %d more", u.more)
	}
	return s
}
