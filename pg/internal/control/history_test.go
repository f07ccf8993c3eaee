package control

import "testing"

// BenchmarkEnteredOnDevice measures what it costs to note a collective on a device.
func BenchmarkEnteredOnDevice(b *testing.B) {
	var p Progress
	for i := uint64(1); b.Loop(); i++ {
		p.Slot().Seq = i
		p.EnteredOnDevice(1, i)
	}
}
