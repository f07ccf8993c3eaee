//go:build unix

package launch

import (
	"os"
	"os/exec"
	"syscall"
)

// Forwarded lists the signals that a launcher hands on to its processes.
func Forwarded() []os.Signal {
	return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

func asksToEnd(sig os.Signal) bool { return sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 }

// signalAll signals the groups of the processes that are not nil. One that has just ended is no error.
func signalAll(procs []*exec.Cmd, sig os.Signal) {
	for _, p := range procs {
		if p != nil {
			_ = syscall.Kill(-p.Process.Pid, sig.(syscall.Signal))
		}
	}
}
