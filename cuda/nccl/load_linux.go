//go:build amd64 || arm64

package nccl

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ebitengine/purego"
)

// places are where the library lies: the loader's own path, CUDA's folders, and Python environments that hold NVIDIA's
// wheel.
var places = []string{"libnccl.so.2", "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "/usr/lib/aarch64-linux-gnu/libnccl.so.2",
	"/usr/local/cuda/lib64/libnccl.so.2", "/opt/*/lib/python3*/site-packages" + wheel,
	"/opt/*/.venv/lib/python3*/site-packages" + wheel, "/usr/local/lib/python3*/*-packages" + wheel}

// PathVariable names the library in the environment.
const PathVariable = "COLLIGO_NCCL_PATH"

// intraNodeVariable asks for Options.IntraNode in the environment, as it does in PyTorch.
func intraNodeVariable() bool {
	on, err := strconv.ParseBool(os.Getenv("ENABLE_INTRA_NODE_COMM"))
	return err == nil && on
}

// hostVariable is what tells NCCL's ranks of one machine that they are on several hosts.
func hostVariable() string { return os.Getenv("NCCL_HOSTID") }

// Open loads the library from path. If that is empty, it takes the path that the environment names, else the first usual
// place that has the library:
//
//  1. the Python environment that the process runs in
//  2. the loader's path, CUDA's folders and the system's folders of Python packages
//  3. the user's own Python packages, and the packages of Pythons that pyenv has installed
//  4. the place of the torch that the program python3 has, which is asked for 5 s at most
func Open(path string) (*Library, error) {
	if path == "" {
		path = os.Getenv(PathVariable)
	}
	if path != "" {
		l, err := load(path)
		if err != nil {
			return nil, fmt.Errorf("nccl: %w: searched %s: %w", ErrNotFound, path, err)
		}
		return l, nil
	}
	candidates := expand(slices.Concat(besides(), places, users()))
	l, err := firstOf(candidates)
	if l != nil {
		return l, nil
	}
	more := asked("python3")
	l, err2 := firstOf(more)
	if l != nil {
		return l, nil
	}
	if err == nil {
		err = err2
	}
	return nil, fmt.Errorf("nccl: %w: searched %s, and python3's torch: %w", ErrNotFound, strings.Join(append(candidates, more...), ", "), err)
}

// firstOf loads the first library that can be loaded. Else it returns the error of the first one.
func firstOf(candidates []string) (*Library, error) {
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
	return nil, first
}

// besides are the places of the Python environment that the process runs in, if it does.
func besides() (patterns []string) {
	for _, variable := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := os.Getenv(variable); root != "" {
			patterns = append(patterns, root+"/lib/python3*/site-packages"+wheel)
		}
	}
	return patterns
}

// users are the places of packages that the user has installed, and of the Pythons of pyenv.
func users() (patterns []string) {
	home, pyenv := os.Getenv("HOME"), os.Getenv("PYENV_ROOT")
	if home != "" {
		patterns = append(patterns, home+"/.local/lib/python3*/site-packages"+wheel)
		if pyenv == "" {
			pyenv = home + "/.pyenv"
		}
	}
	if pyenv != "" {
		patterns = append(patterns, pyenv+"/versions/*/lib/python3*/site-packages"+wheel)
	}
	return patterns
}

func expand(patterns []string) []string {
	var all []string
	for _, p := range patterns {
		if found := existing(p); len(found) > 0 {
			all = append(all, found...)
		} else if !strings.Contains(p, "*") {
			all = append(all, p)
		}
	}
	return all
}

// existing returns the files that a pattern means.
func existing(pattern string) []string {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil
	}
	return found
}

// required are the functions without which a library is not taken. The others come with later versions.
var (
	required = []string{"ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank", "ncclCommInitAll", "ncclCommDestroy",
		"ncclCommAbort", "ncclGetErrorString", "ncclCommGetAsyncError", "ncclCommCount", "ncclCommCuDevice", "ncclCommUserRank",
		"ncclAllReduce", "ncclReduce", "ncclReduceScatter", "ncclAllGather", "ncclBroadcast", "ncclBcast", "ncclGroupStart", "ncclGroupEnd"}
	optional = []string{"ncclSend", "ncclRecv", "ncclGetLastError", "ncclCommInitRankConfig", "ncclCommInitRankScalable", "ncclCommSplit",
		"ncclCommShrink", "ncclCommFinalize", "ncclCommRegister", "ncclCommDeregister", "ncclCommWindowRegister", "ncclCommWindowDeregister",
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
	l, err := New(path, f.table())
	if err != nil {
		return nil, err
	}
	l.suffix = sync.OnceValue(func() string { return suffixIn(constants(fileOf(f["ncclGetVersion"])), l.Version()) })
	return l, nil
}

// fileOf returns the file that is mapped at an address, empty if none is known.
func fileOf(at uintptr) string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	for lines := bufio.NewScanner(bytes.NewReader(maps)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		low, err := strconv.ParseUint(from, 16, 64)
		high, err2 := strconv.ParseUint(to, 16, 64)
		if err == nil && err2 == nil && uint64(at) >= low && uint64(at) < high {
			return strings.Join(fields[5:], " ")
		}
	}
	return ""
}

// constants returns the constants of a shared object, which have its texts, and nothing of its kernels.
func constants(path string) []byte {
	f, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	section := f.Section(".rodata")
	if section == nil {
		return nil
	}
	text, err := section.Data()
	if err != nil {
		return nil
	}
	return text
}
