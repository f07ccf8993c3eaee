package pg

// Abort ends the group on all ranks for a reason of the program's own; a nil reason is allowed. Pending operations fail, and
// every later one does. Their errors name the reason, and ErrAborted is among their causes.
//
// It does not wait. It may be called from any goroutine, more than once, and while operations are pending. Operations on a
// device end as the mode of Config.Watchdog says. The group is still to be closed. c10d: ProcessGroup.abort.
func (g *Group) Abort(reason error) {
	if g == nil || g.rank < 0 {
		return // not a member
	}
	g.fail(&abortion{g.rank, reason}, true)
}
