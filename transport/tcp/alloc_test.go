package tcp

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
)

// TestAllocations sends and takes frames between two ranks: nothing is allocated once buffers have their size.
func TestAllocations(t *testing.T) {
	for _, compression := range []string{"", "s2", "zstd"} {
		for _, size := range []int{8, 32 << 10} {
			for _, to := range []string{"dst", "link"} {
				t.Run(fmt.Sprintf("compression=%s/bytes=%d/to=%s", compression, size, to), func(t *testing.T) {
					meshes := opener(func(c *transport.Config) { c.Compression, c.Checksum = compression, true })(t, 2, nil)
					p, dst := make([]byte, size), make([]byte, size)
					if to == "link" {
						dst = nil
					}
					h := &transport.Header{Len: uint32(size)}
					out, in := meshes[0].Link(1), meshes[1].Link(0)
					once := func() {
						for ok := false; !ok; {
							ok, _ = out.Send(h, p)
						}
						for {
							h, err := in.Head(0)
							if err != nil {
								panic(err)
							}
							if h != nil {
								if _, ok, _ := in.Body(0, dst); ok {
									break
								}
							}
							meshes[1].Wait(1, noLimit)
						}
						in.Release(0)
					}
					require.Zero(t, testing.AllocsPerRun(200, once))
				})
			}
		}
	}
}
