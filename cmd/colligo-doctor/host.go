package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"time"
)

// host says what this machine has for ranks on the CPU and for linking processes.
func (e *examiner) host() {
	e.say("host", "%s/%s, %d cores, %d in use by Go", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.GOMAXPROCS(0))
	e.say("limits", "%s", limits())
	if err := sharedMemory(); err != nil {
		e.say("shm", "%v: ranks of this host would be linked by tcp", err)
		if runtime.GOOS == "linux" {
			e.miss("have the container's seccomp profile allow memfd_create and Unix sockets, and its limits enough memory and open files; tcp is used until then",
				"shared memory between processes: %v", err)
		}
	} else {
		e.say("shm", "works")
	}
	e.say("name", "%s", hostName(net.DefaultResolver.LookupHost))
}

// hostName says what the host's own name stands for. Ranks on several hosts need it only where MASTER_ADDR is a name.
func hostName(lookup func(ctx context.Context, host string) ([]string, error)) string {
	name, err := os.Hostname()
	if err != nil {
		return err.Error()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	addrs, err := lookup(ctx, name)
	if err != nil {
		return fmt.Sprintf("%s does not resolve here: %v", name, err)
	}
	return fmt.Sprintf("%s is %s", name, strings.Join(addrs, ", "))
}
