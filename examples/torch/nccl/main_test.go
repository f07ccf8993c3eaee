package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
)

// lines returns a file with a call of every kind for each type.
func lines() string {
	var all []string
	for name := range new(call).calls() {
		if name != "die" {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	var b strings.Builder
	for i, d := range []string{"float32", "bfloat16", "float16", "int64", "uint8"} {
		for j, name := range all {
			by := []string{"sum", "max", "min", "product", "avg"}[(i+j)%5]
			if by == "avg" && strings.Contains(d, "int") {
				by = "sum"
			}
			fmt.Fprintln(&b, name, d, 1+11*j, i+j, by)
		}
	}
	return b.String()
}

// TestRanks carries every call out between ranks in Go, over simulated devices.
func TestRanks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls")
	require.NoError(t, os.WriteFile(path, []byte(lines()), 0o600))
	for _, size := range []int{2, 4} {
		for _, eager := range []bool{false, true} {
			t.Run(fmt.Sprintf("ranks=%d/eager=%v", size, eager), func(t *testing.T) { ranks(t, size, eager, path) })
		}
	}
}

func ranks(t *testing.T, size int, eager bool, path string) {
	devices := cudasim.New(cudasim.Config{Devices: size, Seed: 1})
	cudasim.Limit(t, devices)
	defer devices.Close()
	library := ncclsim.New(devices.Driver(), ncclsim.Version)
	s := store.NewHash()
	var all sync.WaitGroup
	for rank := range size {
		all.Go(func() {
			l, err := library.Library()
			if err != nil {
				t.Error(err)
				return
			}
			c := pg.Config{Backends: "nccl", Torch: "2.11", Store: s, Rank: rank, Size: size, Timeout: 20 * time.Second}
			if eager {
				c.Device = gpu(rank)
			}
			wrong, err := run(nccl.With(t.Context(), nccl.Options{Driver: devices.Driver(), Library: l}), devices.Driver(), c, rank, path)
			if err != nil || wrong > 0 {
				t.Errorf("rank %d: %d wrong results: %v", rank, wrong, err)
			}
		})
	}
	all.Wait()
	require.NoError(t, library.Close())
	devices.Drain()
	require.Empty(t, devices.Races())
}
