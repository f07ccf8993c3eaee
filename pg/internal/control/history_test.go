package control

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
)

func sameKind(c *transport.Call) (kind, count uint64) { return 1, c.Seq }

// TestHistoryAt asks for the hash of every collective: of those on devices, where every third one is on the CPU, the last 512 are kept.
func TestHistoryAt(t *testing.T) {
	p := Progress{common: sameKind}
	require.Zero(t, p.HistoryAt(1))
	hashes := map[uint64]uint64{}
	const last = 4 * pastHistories
	for seq := uint64(1); seq <= last; seq++ {
		p.Slot().Seq = seq
		if seq%3 == 0 {
			p.Entered()
			continue
		}
		p.EnteredOnDevice()
		hashes[seq] = p.HistoryAt(seq)
		require.NotZero(t, hashes[seq])
	}
	kept := 0
	for seq := uint64(0); seq <= last+1; seq++ {
		if h := p.HistoryAt(seq); h != 0 {
			require.Equal(t, hashes[seq], h, "collective %d", seq)
			kept++
		}
	}
	require.Equal(t, pastHistories, kept)
	require.Equal(t, hashes[last], p.HistoryAt(last))
}

// BenchmarkEnteredOnDevice measures what it costs to note a collective on a device.
func BenchmarkEnteredOnDevice(b *testing.B) {
	p := Progress{common: sameKind}
	for i := uint64(1); b.Loop(); i++ {
		p.Slot().Seq = i
		p.EnteredOnDevice()
	}
}

func nobody(transport.Call) string { return "" }

// TestCatchUp has collectives on the CPU and on devices in random order. A rank that looks now and then knows the same as one that looks
// after each of them.
func TestCatchUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		often, seldom := Progress{common: sameKind}, Progress{common: sameKind}
		onDevice, looks := rng.IntN(101), rng.IntN(101)
		var onCPU, before uint64
		for seq := range uint64(3 * remembered) {
			device := rng.IntN(100) < onDevice
			for _, p := range []*Progress{&often, &seldom} {
				p.Slot().Seq = seq + 1
				if device {
					p.EnteredOnDevice()
				} else {
					p.Entered()
				}
			}
			if rng.IntN(4) == 0 {
				often.CompleteOnDevice(seq)
				seldom.CompleteOnDevice(seq)
			} else if rng.IntN(4) == 0 {
				often.Complete(seq)
				seldom.Complete(seq)
			}
			told := often.done()
			require.Equal(t, device, often.devices.entered == seq+1)
			if device {
				before = onCPU
			} else {
				onCPU = seq + 1
			}
			require.Equal(t, before, often.devices.before)
			if rng.IntN(100) < looks {
				if rng.IntN(2) == 0 {
					require.Equal(t, often.untold(nobody), seldom.untold(nobody))
				}
				require.Equal(t, told, seldom.done())
				require.Equal(t, often.devices, seldom.devices)
			}
		}
		seldom.done()
		require.Equal(t, often.devices, seldom.devices)
	}
}
