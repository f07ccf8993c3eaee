package pg_test

import (
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
)

// TestStatic builds a program that imports pg only, for Linux and without cgo: it asks for no dynamic linker, carries no
// foreign-call runtime, and runs.
func TestStatic(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "static")
	build := exec.Command("go", "build", "-o", program, "./testdata/static")
	build.Env = append(cleanEnvironment(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	f, err := elf.Open(program)
	require.NoError(t, err)
	defer f.Close()
	for _, p := range f.Progs {
		require.NotEqual(t, elf.PT_INTERP, p.Type, "the program asks for a dynamic linker")
		require.NotEqual(t, elf.PT_DYNAMIC, p.Type, "the program is linked at run time")
	}
	info, err := buildinfo.ReadFile(program)
	require.NoError(t, err)
	for _, dep := range info.Deps {
		require.False(t, strings.Contains(dep.Path, "purego"), dep.Path)
	}
	needs(t, "shm") // from here on it has to run
	addr := freeport.Address(t, "127.0.0.1")
	outs := make(chan string)
	for rank := range 2 {
		cmd := exec.Command(program)
		cmd.Env = append(cleanEnvironment(), launched(rank, 2, addr)...)
		go func() {
			out, err := cmd.CombinedOutput()
			outs <- fmt.Sprintf("%s %v", out, err)
		}()
	}
	var all string
	for range 2 {
		all += <-outs
	}
	require.Contains(t, all, "group 0: rank 0 of 2 over shm\n <nil>")
	require.Contains(t, all, "group 0: rank 1 of 2 over shm\n <nil>")
}
