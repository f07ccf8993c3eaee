package symheap

import (
	"context"
	"fmt"

	"github.com/colligo-go/colligo/cuda"
)

// Reach describes how the devices of a group reach each other. It is the same on all ranks.
type Reach struct {
	NVLink          bool   // every device reaches every other one by NVLink: a store of 16 bytes arrives whole
	Multiprocessors int    // of the smallest device
	Barred          string // why a rank could not map a peer's heap; empty if all have all
}

// links describes a rank's links to the others.
type links struct {
	NVLink          bool
	Barred          string // why this rank could not map a peer's heap; empty if it has them all
	Multiprocessors int    // of its device
}

// reach exchanges the links of all ranks.
func (h *Heap) reach(ctx context.Context, all []address, barred string) (r Reach, err error) {
	n, err := h.device.Attribute(cuda.MultiprocessorCount)
	if err != nil {
		return r, err
	}
	own := &links{NVLink: true, Barred: barred, Multiprocessors: n}
	for q := range all {
		own.NVLink = own.NVLink && h.linkedTo(all[q].UUID)
	}
	told, err := Exchange(ctx, h.group, own)
	if err != nil {
		return r, err
	}
	r.NVLink, r.Multiprocessors = true, n
	for q := range told {
		r.NVLink = r.NVLink && told[q].NVLink
		r.Multiprocessors = min(r.Multiprocessors, told[q].Multiprocessors)
		if r.Barred == "" {
			r.Barred = told[q].Barred
		}
	}
	return r, nil
}

// linkedTo reports whether stores to a device go by NVLink, the only link with atomic operations. A device that this process
// cannot see counts as not linked.
func (h *Heap) linkedTo(uuid string) bool {
	own, other, _, seen := h.visible(uuid)
	if !seen {
		return false
	}
	atomics, r := h.driver.DeviceGetP2PAttribute(cuda.P2PNativeAtomics, own, other)
	return other == own || r == cuda.Success && atomics != 0
}

// denied returns an error if the driver says that this device has no access to one that the process sees. Of other devices
// only trying tells.
func (h *Heap) denied(uuid string) error {
	own, other, ordinal, seen := h.visible(uuid)
	if !seen || other == own {
		return nil
	}
	if yes, r := h.driver.DeviceCanAccessPeer(own, other); r == cuda.Success && !yes {
		return fmt.Errorf("device %d has no P2P access to device %d", h.device.Index(), ordinal)
	}
	return nil
}

// visible returns this rank's device, and the device of a UUID if the process sees it.
func (h *Heap) visible(uuid string) (own, other cuda.DeviceID, ordinal int, seen bool) {
	d := h.driver
	n, r := d.DeviceGetCount()
	if r != cuda.Success {
		return 0, 0, 0, false
	}
	if own, r = d.DeviceGet(h.device.Index()); r != cuda.Success {
		return 0, 0, 0, false
	}
	for i := range n {
		other, r := d.DeviceGet(i)
		if r != cuda.Success {
			continue
		}
		if id, r := d.DeviceGetUUID(other); r == cuda.Success && uuidText(id) == uuid {
			return own, other, i, true
		}
	}
	return 0, 0, 0, false
}

// uuidText is cuda.Device.UUID's form.
func uuidText(id [16]byte) string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
