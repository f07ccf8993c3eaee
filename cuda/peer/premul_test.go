package peer

import (
	"fmt"
	"testing"

	"github.com/colligo-go/colligo"
)

// TestPremultiplied goes by LL and tiles, in one round and, with 70,000 elements, in several.
func TestPremultiplied(t *testing.T) {
	t.Parallel()
	half := colligo.PremulSum(0.5)
	var all []reduction
	for _, d := range colligo.DTypes() {
		if underRace && d != colligo.Float32 && d != colligo.BFloat16 {
			continue // it sees no types
		}
		if _, _, err := colligo.KindPremulSum.Check(d); err == nil {
			all = append(all, reduction{d, colligo.KindPremulSum})
		}
	}
	for _, size := range fewer(1, 2, 3) {
		t.Run(fmt.Sprintf("ranks=%d", size), func(t *testing.T) {
			t.Parallel()
			o := Options{Memory: 9 << 20}
			onSim(t, size, o, func(r *rank) error {
				for _, k := range all {
					if err := r.folds(k.dtype, half, 101); err != nil {
						return err
					}
				}
				return first(r.folds(colligo.Float32, half, 0), r.folds(colligo.Float32, half, 70_000), r.folds(colligo.BFloat16, half, 1))
			}, all...)
		})
	}
}
