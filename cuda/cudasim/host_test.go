package cudasim_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// TestHostStores has the host store words at any time while a stream begins to wait for them: no store is missed.
func TestHostStores(t *testing.T) {
	r := newRig(t, cudasim.Config{Patience: 20 * time.Second})
	h, s := r.host(4096), r.stream(0)
	const rounds = 1000
	var storing sync.WaitGroup
	next := make(chan uint32, 1)
	storing.Go(func() {
		for v := range next {
			for i := range int(v) % 64 {
				storeWord(h.Bytes, 64, uint32(i)) // some time, different each time
			}
			storeWord(h.Bytes, 0, v)
		}
	})
	r.on(0, func(th cuda.Thread) {
		for v := uint32(1); v <= rounds; v++ {
			next <- v
			require.NoError(t, th.Wait32(s, h.Device, v))
			require.NoError(t, th.Synchronize(s))
		}
	})
	close(next)
	storing.Wait()
}
