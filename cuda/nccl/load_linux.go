//go:build amd64 || arm64

package nccl

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ebitengine/purego"
)

// places are where the library lies: the loader's own path, CUDA's folders, and Python environments that hold NVIDIA's
// wheel.
var places = []string{"libnccl.so.2", "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "/usr/lib/aarch64-linux-gnu/libnccl.so.2",
	"/usr/local/cuda/lib64/libnccl.so.2", "/opt/*/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
	"/opt/*/.venv/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2",
	"/usr/local/lib/python3*/*-packages/nvidia/nccl/lib/libnccl.so.2"}

// Open loads the library from path, or, if that is empty, from the first usual place that has it.
func Open(path string) (*Library, error) {
	candidates := []string{path}
	if path == "" {
		candidates = expand(places)
	}
	var first error
	for _, p := range candidates {
		l, err := load(p)
		if err == nil {
			return l, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, fmt.Errorf("nccl: %w: searched %s: %w", ErrNotFound, strings.Join(candidates, ", "), first)
}

func expand(patterns []string) []string {
	var all []string
	for _, p := range patterns {
		if found, err := filepath.Glob(p); err == nil && len(found) > 0 {
			all = append(all, found...)
		} else if !strings.Contains(p, "*") {
			all = append(all, p)
		}
	}
	return all
}

func load(path string) (*Library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	l := &Library{Path: path}
	for s, name := range names {
		at, err := purego.Dlsym(handle, name)
		if err != nil && symbol(s) < getLastError {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		l.table[s] = at
	}
	return l, nil
}

//go:uintptrescapes
func (l *Library) call(s symbol, words ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(l.table[s], words...)
	return r
}
