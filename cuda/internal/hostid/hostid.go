// Package hostid tells on which host a rank runs. Ranks of one host have the same identity, which lasts until the host starts again. It
// also tells whether the host has a network other than sockets.
package hostid

import (
	"context"
	"os"
	"strings"
	"sync"
)

type key struct{}

// With has Of return another identity, as tests do of several hosts in one process. An empty one changes nothing.
func With(ctx context.Context, id string) context.Context {
	if id == "" {
		return ctx
	}
	return context.WithValue(ctx, key{}, id)
}

// Of returns the identity of this rank's host. It is empty where the system tells none.
func Of(ctx context.Context) string {
	if id, ok := ctx.Value(key{}).(string); ok {
		return id
	}
	return boot()
}

// RDMA reports whether this rank's host has an adapter of InfiniBand, RoCE or EFA, which the kernel lists. A host of With has none.
func RDMA(ctx context.Context) bool {
	_, made := ctx.Value(key{}).(string)
	return !made && adapters()
}

var adapters = sync.OnceValue(func() bool {
	all, err := os.ReadDir("/sys/class/infiniband")
	return err == nil && len(all) > 0
})

// boot differs between hosts. A file of the kernel is no configuration.
var boot = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})
