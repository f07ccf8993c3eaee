//go:build (amd64 || arm64) && !noasm && linux

package shm

// pause tells the core that a loop waits for another one. A core with two threads then leaves more of itself to the other thread, which
// may be the one that is waited for.
func pause()
