//go:build amd64 || arm64

package nccl

import (
	"fmt"
	"os"
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

// PathVariable names the library in the environment.
const PathVariable = "COLLIGO_NCCL_PATH"

// Open loads the library from path. If that is empty, it takes the path that the environment names, else the first usual
// place that has the library. The places are a Python environment, the
// loader's path, CUDA's folders, and folders of Python packages.
func Open(path string) (*Library, error) {
	if path == "" {
		path = os.Getenv(PathVariable)
	}
	candidates := []string{path}
	if path == "" {
		candidates = expand(append(besides(), places...))
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

// besides are the places of the Python environment that the process runs in, if it does.
func besides() (patterns []string) {
	for _, variable := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := os.Getenv(variable); root != "" {
			patterns = append(patterns, root+"/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2")
		}
	}
	return patterns
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

// required are the functions without which a library is not taken; optional ones come with later versions.
var (
	required = []string{"ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank", "ncclCommInitAll", "ncclCommDestroy",
		"ncclCommAbort", "ncclGetErrorString", "ncclCommGetAsyncError", "ncclCommCount", "ncclCommCuDevice", "ncclCommUserRank",
		"ncclAllReduce", "ncclReduce", "ncclReduceScatter", "ncclAllGather", "ncclBroadcast", "ncclBcast", "ncclSend", "ncclRecv",
		"ncclGroupStart", "ncclGroupEnd"}
	optional = []string{"ncclGetLastError", "ncclCommInitRankConfig", "ncclCommInitRankScalable", "ncclCommSplit", "ncclCommShrink",
		"ncclCommFinalize", "ncclCommRegister", "ncclCommDeregister", "ncclCommWindowRegister", "ncclCommWindowDeregister",
		"ncclMemAlloc", "ncclMemFree", "ncclRedOpCreatePreMulSum", "ncclRedOpDestroy"}
)

func load(path string) (*Library, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, err
	}
	f := functions{}
	for _, name := range required {
		if f[name], err = purego.Dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, name := range optional {
		if at, err := purego.Dlsym(handle, name); err == nil {
			f[name] = at
		}
	}
	return New(path, f.table())
}
