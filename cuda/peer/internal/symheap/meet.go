package symheap

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/pg/backend"
)

// address describes a rank's heap to its peers. It travels as JSON, filled up to addressBytes with spaces.
type address struct {
	Process  string // equal for ranks that share an address space and a driver
	Nonce    string // differs for every heap
	Device   int
	UUID     string
	Heap     uint64
	Handle   []byte // of the heap
	Layout   string // must be equal on all ranks, as must the rules
	Rules    string
	Sentinel [4]uint32 // rank 0's is the group's
}

const addressBytes = 8 << 10

// process names this process among all of the job.
var process = sync.OnceValue(rand.Text)

// home is equal for ranks that share an address space and a driver.
func (h *Heap) home() string { return fmt.Sprintf("%s/%p", process(), h.driver) }

// Meet exchanges addresses and maps the peers' heaps, on all ranks together. It returns the properties of
// their links. If some rank could not map a heap, Barred says why, on all ranks alike, and GiveUp ends the heap.
// The stream is for filling the own heap. Rules is compared, and must be equal on all ranks.
func (h *Heap) Meet(ctx context.Context, t cuda.Thread, s cuda.Stream, rules string) (r Reach, err error) {
	own, err := h.address(t, rules)
	if err != nil {
		return r, err
	}
	all, err := Exchange(ctx, h.group, own)
	if err != nil {
		return r, err
	}
	h.joinProcess(own.Process + all[0].Nonce)
	h.leaving = "peer/leaving/" + all[0].Nonce
	h.Sentinel = all[0].Sentinel
	if err := h.fill(t, s); err != nil {
		return r, err
	}
	h.peers = make([]mapping, h.size)
	barred := ""
	for q := range all {
		if all[q].Layout != own.Layout || all[q].Rules != own.Rules {
			return r, fmt.Errorf("rank %d was opened with other options: %s %s; here %s %s", q, all[q].Layout, all[q].Rules,
				own.Layout, own.Rules)
		}
		if err := h.mapPeer(t, q, &all[q], own); err != nil && barred == "" {
			barred = fmt.Sprintf("GPUs %d and %d (ranks %d and %d) cannot reach each other (%v)", h.device.Index(), all[q].Device, h.rank, q, err)
		}
	}
	return h.reach(ctx, all, barred)
}

// fill makes sentinels of the memory that protocols by sentinels share with nobody.
func (h *Heap) fill(t cuda.Thread, s cuda.Stream) error {
	l := &h.Layout
	if err := h.FillSentinel(t, l.Sentinel, l.SentinelBytes(), s); err != nil {
		return err
	}
	if err := h.FillSentinel(t, l.Eager, (h.size-1)*l.eagerBuffer, s); err != nil {
		return err
	}
	return t.Synchronize(s)
}

func (h *Heap) address(t cuda.Thread, rules string) (*address, error) {
	uuid, err := h.device.UUID()
	if err != nil {
		return nil, err
	}
	a := &address{Process: h.home(), Device: h.device.Index(), UUID: uuid,
		Nonce: rand.Text(), Heap: uint64(h.At), Layout: h.Layout.String(), Rules: rules}
	if err := binary.Read(rand.Reader, binary.NativeEndian, &a.Sentinel); err != nil {
		return nil, err
	}
	// Containers can forbid handles. Ranks of one process do without; others miss it when they map.
	if handle, err := t.IPCHandle(h.At); err == nil {
		a.Handle = handle[:]
	}
	return a, nil
}

// Exchange gives every rank of a group the values of all of them. All ranks call it together.
func Exchange[T any](ctx context.Context, g backend.Host, own *T) ([]T, error) {
	text, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	in := slices.Repeat([]byte{' '}, addressBytes)
	if copy(in, text) < len(text) {
		return nil, fmt.Errorf("an address of %d bytes, there is room for %d", len(text), addressBytes)
	}
	out := make([]byte, g.Size()*addressBytes)
	if err := backend.AllGather(ctx, g, colligo.Of(out), colligo.Of(in)); err != nil {
		return nil, fmt.Errorf("exchanging addresses: %w", err)
	}
	all := make([]T, g.Size())
	for q := range all {
		if err := json.Unmarshal(out[q*addressBytes:(q+1)*addressBytes], &all[q]); err != nil {
			return nil, fmt.Errorf("address of rank %d: %w", q, err)
		}
	}
	return all, nil
}

// mapPeer makes a rank's heap reachable for this device.
func (h *Heap) mapPeer(t cuda.Thread, q int, a, own *address) (err error) {
	m := &h.peers[q]
	if a.Process != own.Process {
		if len(a.Handle) != len(cuda.IPCHandle{}) {
			return errors.New("its driver gives no IPC handle of its memory")
		}
		if err := h.denied(a.UUID); err != nil {
			return err
		}
		m.at, err = t.OpenIPC(cuda.IPCHandle(a.Handle))
		m.opened = err == nil
		return err
	}
	m.at = cuda.Pointer(a.Heap)
	if a.Device == own.Device {
		return nil
	}
	if m.device, err = h.driver.Device(a.Device); err != nil {
		return err
	}
	yes, err := h.device.CanAccess(m.device)
	if err != nil {
		return err
	}
	if !yes {
		return fmt.Errorf("device %d has no P2P access to device %d", own.Device, a.Device)
	}
	return t.EnablePeer(m.device)
}
