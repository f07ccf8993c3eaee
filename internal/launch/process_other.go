//go:build !unix

package launch

import (
	"os"
	"os/exec"
)

// Forwarded lists the signals that a launcher hands on to its processes. The console delivers an interrupt to all of
// them anyway.
func Forwarded() []os.Signal { return []os.Signal{os.Interrupt} }

func asksToEnd(os.Signal) bool { return true }

// signalAll ends the processes that are not nil, unless sig is the interrupt that they got as well. One that has just ended is no error.
func signalAll(procs []*exec.Cmd, sig os.Signal) {
	if sig == os.Interrupt {
		return
	}
	for _, p := range procs {
		if p != nil {
			_ = p.Process.Kill()
		}
	}
}
