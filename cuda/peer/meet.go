package peer

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/kernels/ptx"
	"github.com/colligo-go/colligo/pg"
)

// address is what a rank tells its peers. It travels as JSON, filled up to addressBytes with spaces.
type address struct {
	Process  string // equal for ranks that share an address space and a driver
	Nonce    string // differs for every backend
	Device   int
	UUID     string
	Heap     uint64
	Handle   []byte // of the symmetric heap
	Layout   string // must be equal on all ranks, as must the rules
	Rules    string
	Sentinel [4]uint32 // rank 0's is the group's
}

const addressBytes = 8 << 10

// mapping is a rank's symmetric heap as this device sees it.
type mapping struct {
	at     cuda.Pointer
	device *cuda.Device // of a rank in this process, on another device
	opened bool         // by an IPC handle
}

// process names this process among all of the world.
var process = sync.OnceValue(rand.Text)

// home is equal for ranks that share an address space and a driver.
func (b *backend) home() string { return fmt.Sprintf("%s/%p", process(), b.options.Driver) }

// meet exchanges addresses and maps the peers' symmetric heaps. It is collective.
func (b *backend) meet(ctx context.Context, t cuda.Thread) error {
	own, err := b.address(t)
	if err != nil {
		return err
	}
	all, err := exchange(ctx, b.group, own)
	if err != nil {
		return err
	}
	b.joinProcessPeers(own.Process + all[0].Nonce)
	b.leaving = "peer/leaving/" + all[0].Nonce
	b.sentinel = all[0].Sentinel
	b.code.dirty = true // the symmetric heap is zeros
	setup := b.streams.setup.stream
	l := &b.layout
	if err := first(b.fillSentinel(t, l.sentinel, l.sentinelBytes(), setup), b.fillSentinel(t, l.eager, (b.size-1)*l.pairBytes, setup),
		t.Synchronize(setup)); err != nil {
		return err
	}
	b.peers = make([]mapping, b.size)
	for q := range all {
		b.serial = b.serial || slices.ContainsFunc(all[:q], func(a address) bool { return a.UUID == all[q].UUID })
		if all[q].Layout != own.Layout || all[q].Rules != own.Rules {
			return fmt.Errorf("rank %d was opened with other options: %s %s; here %s %s", q, all[q].Layout, all[q].Rules,
				own.Layout, own.Rules)
		}
		if err := b.mapPeer(t, q, &all[q], own); err != nil && b.why == "" {
			b.why = b.barred(q, &all[q], err)
		}
	}
	if err := b.findLinks(ctx, all); err != nil {
		return err
	}
	if !b.linked || b.serial {
		b.layout.withoutRendezvous()
	}
	return nil
}

func (b *backend) address(t cuda.Thread) (*address, error) {
	uuid, err := b.device.UUID()
	if err != nil {
		return nil, err
	}
	a := &address{Process: b.home(), Device: b.device.Index(), UUID: uuid,
		Nonce: rand.Text(), Heap: uint64(b.heap), Layout: b.layout.String(), Rules: digest(b.options.Rules)}
	if err := binary.Read(rand.Reader, binary.NativeEndian, &a.Sentinel); err != nil {
		return nil, err
	}
	// Containers can forbid handles. Ranks of one process do without; others miss it when they map.
	if h, err := t.IPCHandle(b.heap); err == nil {
		a.Handle = h[:]
	}
	return a, nil
}

// fillSentinel fills some bytes of the symmetric heap as sentinel memory is while nothing is on its way.
func (b *backend) fillSentinel(t cuda.Thread, at, bytes int, s cuda.Stream) error {
	a := &ptx.FillArgs{Out: uint64(b.heap) + uint64(at), Lines: uint64(up(bytes, 16) / 16), Line: b.sentinel}
	return t.Launch(b.code.move.fill.Function, cuda.Grid{Blocks: uint32(min(bytes>>18+1, 128)), Threads: 512}, unsafe.Pointer(a), s)
}

// exchange gives every rank what all of them tell.
func exchange[T any](ctx context.Context, g *pg.Group, own *T) ([]T, error) {
	text, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	in := slices.Repeat([]byte{' '}, addressBytes)
	if copy(in, text) < len(text) {
		return nil, fmt.Errorf("an address of %d bytes, there is room for %d", len(text), addressBytes)
	}
	out := make([]byte, g.Size()*addressBytes)
	if err := g.AllGatherInto(ctx, colligo.Of(out), colligo.Of(in)); err != nil {
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

// mapPeer makes a rank's symmetric heap reachable for this device.
func (b *backend) mapPeer(t cuda.Thread, q int, a, own *address) (err error) {
	m := &b.peers[q]
	if a.Process != own.Process {
		if len(a.Handle) != len(cuda.IPCHandle{}) {
			return errors.New("its driver gives no IPC handle of its memory")
		}
		if err := b.denied(a.UUID); err != nil {
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
	if m.device, err = b.options.Driver.Device(a.Device); err != nil {
		return err
	}
	yes, err := b.device.CanAccess(m.device)
	if err != nil {
		return err
	}
	if !yes {
		return fmt.Errorf("device %d has no P2P access to device %d", own.Device, a.Device)
	}
	return t.EnablePeer(m.device)
}
