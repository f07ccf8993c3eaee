//go:build race

package ring

// racing says that the race detector is on, which makes the proofs of large groups ten times as long and finds nothing
// there: planners and checks share no memory.
const racing = true
