//go:build !race

package engine_test

// twins is how many networks TestTwin draws.
const twins = 2000
