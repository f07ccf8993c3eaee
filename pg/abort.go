package pg

// Abort ends the group on all ranks for a reason of the program's own. It does not wait, and may be called from any goroutine,
// more than once, and while operations are pending: those fail, and every later one does, with an error that names the
// reason. The group is still to be closed. c10d: ProcessGroup.abort.
func (g *Group) Abort(reason error) {
	if g == nil || g.rank < 0 {
		return // not a member
	}
	g.fail(&abortion{g.rank, reason}, true)
}
