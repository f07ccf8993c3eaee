package peer

import (
	"context"
	"fmt"

	"github.com/colligo-go/colligo/cuda"
)

// links is what a rank tells of its algorithms to the peers.
type links struct {
	NVLink          bool
	Barred          string // why this rank could not map a peer's symmetric heap; empty if it has them all
	Multiprocessors int    // of its device
}

// findLinks finds out whether all ranks reach all others by NVLink, and how large the smallest device is: both they have to
// agree on.
func (b *backend) findLinks(ctx context.Context, all []address) error {
	n, err := b.device.Attribute(cuda.MultiprocessorCount)
	if err != nil {
		return err
	}
	own := &links{NVLink: true, Barred: b.why, Multiprocessors: n}
	for q := range all {
		own.NVLink = own.NVLink && b.linkedTo(all[q].UUID)
	}
	told, err := exchange(ctx, b.group, own)
	if err != nil {
		return err
	}
	b.linked = true
	for q := range told {
		b.linked = b.linked && told[q].NVLink
		n = min(n, told[q].Multiprocessors)
	}
	b.multiprocessors = forCollectives(n)
	b.why = ""
	for q := range told {
		if b.why == "" {
			b.why = told[q].Barred
		}
	}
	return nil
}

// linkedTo reports whether stores to a device go by NVLink, the only link with atomic operations. What this process cannot
// see counts as not linked.
func (b *backend) linkedTo(uuid string) bool {
	d := b.options.Driver
	n, r := d.DeviceGetCount()
	if r != cuda.Success {
		return false
	}
	own, r := d.DeviceGet(b.device.Index())
	if r != cuda.Success {
		return false
	}
	for i := range n {
		other, r := d.DeviceGet(i)
		if r != cuda.Success {
			continue
		}
		id, r := d.DeviceGetUUID(other)
		if r != cuda.Success || uuidText(id) != uuid {
			continue
		}
		atomics, r := d.DeviceGetP2PAttribute(cuda.P2PNativeAtomics, own, other)
		return other == own || r == cuda.Success && atomics != 0
	}
	return false
}

// uuidText is cuda.Device.UUID's form.
func uuidText(id [16]byte) string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// forCollectives returns how many of a device's multiprocessors grids of collectives may take: messages wait on the others.
func forCollectives(multiprocessors int) int { return max(multiprocessors-eagerWaits, 1) }
