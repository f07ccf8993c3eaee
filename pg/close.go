package pg

import (
	"errors"
	"slices"
)

// CloseAll closes all groups of the Init that g comes from, the youngest first, each as Close does. With the last it closes
// the store that Init opened. It returns the errors of all.
//
// c10d closes so when its default group is destroyed. Here a package has no state, so a program keeps what Init returned.
// c10d: destroy_process_group of the default group.
func (g *Group) CloseAll() error {
	var errs []error
	for _, n := range slices.Backward(g.Groups()) {
		errs = append(errs, n.Close())
	}
	return errors.Join(append(errs, g.Close())...)
}
