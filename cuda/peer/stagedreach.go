package peer

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/colligo-go/colligo/cuda"
)

// forced is why a group stages whose Options ask for it.
const forced = "options ask for it"

// berth is what a rank tells of itself before it takes memory.
type berth struct {
	Host   string // empty if unknown
	Memory int    // must be equal on all ranks, as must Staged
	Staged bool

	Blocking bool // each launch waits for its kernel
}

// survey returns why the ranks cannot reach each other's memory, as far as that is known before they have tried, the same
// on all of them. No rank returns before all have called it.
func (b *backend) survey(ctx context.Context) (why string, err error) {
	own := &berth{Host: b.options.host, Memory: b.options.Memory, Staged: b.options.Staged, Blocking: b.options.Driver.Blocking}
	if own.Host == "" {
		own.Host = bootID()
	}
	all, err := exchange(ctx, b.group, own)
	if err != nil {
		return "", fmt.Errorf("before opening: %w", err)
	}
	for q, x := range all {
		b.serial = b.serial || x.Blocking
		switch {
		case x.Staged != own.Staged || x.Memory != own.Memory:
			return "", fmt.Errorf("rank %d was opened with other options: %d bytes of memory, staged %v; here %d, %v", q, x.Memory,
				x.Staged, own.Memory, own.Staged)
		case why == "" && x.Host != all[0].Host:
			why = fmt.Sprintf("ranks 0 and %d are on different hosts", q)
		}
	}
	switch {
	case own.Staged:
		why = forced
	case why == "" && b.size > maxRanks:
		why = fmt.Sprintf("a group of %d ranks, and GPUs that reach each other's memory are at most %d", b.size, maxRanks)
	}
	return why, nil
}

// bootID differs between hosts; it is empty where the system tells none. A file of the kernel is no configuration.
var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})

// barred is what a rank tells of a peer's symmetric heap that it could not map.
func (b *backend) barred(q int, a *address, cause error) string {
	return fmt.Sprintf("GPUs %d and %d (ranks %d and %d) cannot reach each other (%v)", b.device.Index(), a.Device, b.rank, q, cause)
}

// denied returns an error if the driver says that this device has no access to one that the process sees. Of others only
// trying tells.
func (b *backend) denied(uuid string) error {
	d := b.options.Driver
	n, r := d.DeviceGetCount()
	if r != cuda.Success {
		return nil
	}
	own, r := d.DeviceGet(b.device.Index())
	if r != cuda.Success {
		return nil
	}
	for i := range n {
		other, r := d.DeviceGet(i)
		if r != cuda.Success || other == own {
			continue
		}
		if id, r := d.DeviceGetUUID(other); r != cuda.Success || uuidText(id) != uuid {
			continue
		}
		if yes, r := d.DeviceCanAccessPeer(own, other); r == cuda.Success && !yes {
			return fmt.Errorf("device %d has no P2P access to device %d", b.device.Index(), i)
		}
	}
	return nil
}

// restage gives the symmetric heaps up, which some rank could not map, and stages instead. No rank has used another's.
func (b *backend) restage(ctx context.Context, t cuda.Thread, why string) error {
	if err := b.unmap(t); err != nil {
		return err
	}
	if err := b.group.Barrier(ctx); err != nil { // a symmetric heap is given back when nobody has it mapped
		return fmt.Errorf("giving up the heaps: %w", err)
	}
	err := t.Free(b.heap)
	if b.heap = 0; err != nil {
		return err
	}
	return b.openStaged(ctx, t, why)
}
