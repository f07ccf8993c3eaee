//go:build race

package parity

// underRace says that Go's race detector watches, and that everything takes ten times as long.
const underRace = true
