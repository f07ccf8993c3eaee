package peer

import (
	"context"
	"fmt"
	"slices"

	"github.com/colligo-go/colligo/cuda/internal/hostid"
	"github.com/colligo-go/colligo/cuda/peer/internal/symheap"
)

// forced is why a group stages whose Options ask for it.
const forced = "options ask for it"

// site describes a rank to the others, before it takes memory.
type site struct {
	Host   string // empty if unknown
	UUID   string // of the device
	Memory int    // must be equal on all ranks, as must Staged
	Staged bool

	Blocking bool // each launch waits for its kernel
}

// survey learns whether ranks share a device. It returns why the ranks cannot reach each other's memory, as far as that is known before they
// have tried. The answers are the same on all ranks. No rank returns before all have called it.
func (b *backend) survey(ctx context.Context) (why string, err error) {
	uuid, err := b.device.UUID()
	if err != nil {
		return "", err
	}
	own := &site{Host: hostid.Of(ctx), UUID: uuid, Memory: b.options.Memory, Staged: b.options.Staged, Blocking: b.options.Driver.Blocking}
	all, err := symheap.Exchange(ctx, b.group, own)
	if err != nil {
		return "", fmt.Errorf("before opening: %w", err)
	}
	for q, x := range all {
		b.shared = b.shared || slices.ContainsFunc(all[:q], func(y site) bool { return y.UUID == x.UUID })
		b.serial = b.serial || x.Blocking || b.shared
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
	case why == "" && b.size > symheap.MaxRanks:
		why = fmt.Sprintf("a group of %d ranks, and GPUs that reach each other's memory are at most %d", b.size, symheap.MaxRanks)
	}
	return why, nil
}
