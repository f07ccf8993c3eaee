package pg

// speaksGloo reports whether a group is one.
func speaksGloo(g *Group) bool { return overGloo(g.devices.selected) }
