//go:build unix && !linux

package launch

import "syscall"

// attributes makes a process the leader of its own process group.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
