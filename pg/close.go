package pg

import (
	"errors"
	"slices"
)

// CloseAll closes all groups that come from the same Init as g, the youngest first, and with the last the store that Init
// opened. There is no default group for the process, as c10d has: a package has no state of its own here, and a program
// that wants one keeps what Init returned. c10d: destroy_process_group of the default group.
func (g *Group) CloseAll() error {
	var errs []error
	for _, n := range slices.Backward(g.Groups()) {
		errs = append(errs, n.Close())
	}
	return errors.Join(append(errs, g.Close())...)
}
