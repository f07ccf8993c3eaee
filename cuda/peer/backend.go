package peer

import (
	"fmt"
	"strings"
	"sync"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/internal/devmem"
	"github.com/colligo-go/colligo/cuda/internal/streamorder"
	seam "github.com/colligo-go/colligo/pg/backend"
)

// backend is one rank's part of a group on one device. The order that it embeds carries out Run, Begin, End and Finished; the
// reader carries out Read.
type backend struct {
	*streamorder.Order
	*devmem.Reader
	launcher
	options  Options
	device   *cuda.Device
	check    *devmem.Checker
	messages messages
	watchdog watchdog
	barred   string // why the ranks cannot reach one another's memory; empty if they can
	opened   bool   // there may be operations to end

	parting sync.Mutex
	parted  bool // this rank writes into the peers' heaps no more, for it is about to unmap them; under parting
}

var (
	_ seam.Grouper        = (*backend)(nil)
	_ seam.Tracker        = (*backend)(nil)
	_ seam.Registrar      = (*backend)(nil)
	_ seam.Reader         = (*backend)(nil)
	_ seam.Stager         = (*backend)(nil)
	_ streamorder.Carrier = (*backend)(nil)
)

// BeginBlock implements streamorder.Carrier.
func (b *backend) BeginBlock(calls []seam.Call) (together bool) { return b.messages.begin(calls) }

// EndBlock implements streamorder.Carrier.
func (b *backend) EndBlock(t cuda.Thread, s cuda.Stream) error { return b.messages.post(t, s) }

// DropBlock implements streamorder.Carrier.
func (b *backend) DropBlock() { b.messages.end() }

// String describes the backend: its memory, and the rules of each collective.
func (b *backend) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "native GPU backend: rank %d of %d on %v, %v", b.rank, b.size, b.device, b.layout)
	for _, c := range b.options.Rules {
		fmt.Fprintf(&s, "\n%v", c)
	}
	return s.String()
}
