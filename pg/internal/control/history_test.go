package control

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHistoryAt asks for the hash of every collective: of those on devices, where every third one is on the CPU, the last 512 are kept.
func TestHistoryAt(t *testing.T) {
	var p Progress
	require.Zero(t, p.HistoryAt(1))
	hashes := map[uint64]uint64{}
	const last = 4 * pastHistories
	for seq := uint64(1); seq <= last; seq++ {
		p.Slot().Seq = seq
		if seq%3 == 0 {
			p.Entered()
			continue
		}
		p.EnteredOnDevice(1, seq)
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
	var p Progress
	for i := uint64(1); b.Loop(); i++ {
		p.Slot().Seq = i
		p.EnteredOnDevice(1, i)
	}
}
