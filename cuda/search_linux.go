//go:build amd64 || arm64

package cuda

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/ebitengine/purego"
)

// places are where the driver lies: the loader's own path first, then where distributions, containers, NixOS and WSL put
// it without telling the loader.
var places = []string{
	"libcuda.so.1",
	"/usr/lib/x86_64-linux-gnu/libcuda.so.1",
	"/usr/lib/aarch64-linux-gnu/libcuda.so.1",
	"/usr/lib64/libcuda.so.1",
	"/usr/local/nvidia/lib64/libcuda.so.1",
	"/usr/local/nvidia/lib/libcuda.so.1",
	"/run/opengl-driver/lib/libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
	"libcuda.so",
}

// search loads the driver's library from the first place that has it.
func search() (*library, error) { return searchIn(places) }

func searchIn(places []string) (*library, error) {
	var first error
	for _, place := range places {
		handle, err := purego.Dlopen(place, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		lookup := func(name string) uintptr {
			at, err := purego.Dlsym(handle, name)
			if err != nil {
				return 0
			}
			return at
		}
		l, err := resolve(place, lookup)
		if err != nil {
			return nil, err
		}
		l.path = fileAt(l.address[cuInit], place)
		return l, nil
	}
	return nil, fmt.Errorf("cuda: %w: searched %s: %w", ErrNoDriver, strings.Join(places, ", "), first)
}

// fileAt returns the file mapped at address, or unknown if that cannot be found out.
func fileAt(address uintptr, unknown string) string {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return unknown
	}
	defer maps.Close()
	for s := bufio.NewScanner(maps); s.Scan(); {
		var from, to uintptr
		if _, err := fmt.Sscanf(s.Text(), "%x-%x", &from, &to); err != nil || address < from || address >= to {
			continue
		}
		if slash := strings.IndexByte(s.Text(), '/'); slash >= 0 {
			return s.Text()[slash:]
		}
	}
	return unknown
}
