//go:build race

package engine_test

// twins is how many networks TestTwin draws; the race detector, which has nothing to find in a state machine, is slow.
const twins = 200
