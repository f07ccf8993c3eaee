//go:build !race

package peer

const underRace = false
