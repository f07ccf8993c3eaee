//go:build race

package ring

// racing says that the race detector is on. It makes the proofs of large groups ten times as long and finds nothing there,
// for planners and checks share no memory.
const racing = true
