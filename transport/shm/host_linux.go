package shm

import (
	"os"
	"strings"
	"sync"
)

// HostID returns a text that is equal for two ranks exactly if they can meet through this package. It names the boot of the
// kernel they run under, and their network namespace, in which the abstract sockets live. Segments are passed as descriptors
// and futexes on them go by inode. So process, user and mount namespaces do not matter. Empty means that the identity cannot
// be found out and memory is shared with nobody.
func HostID() string { return hostID() }

var hostID = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	network, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + network
})
