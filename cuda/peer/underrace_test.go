//go:build race

package peer

// underRace says that Go's race detector watches, and that everything takes ten times as long.
const underRace = true
