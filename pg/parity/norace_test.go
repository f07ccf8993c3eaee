//go:build !race

package parity

const underRace = false
