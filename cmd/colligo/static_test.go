package main

import (
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// built builds a program of this folder's, for Linux without cgo.
func built(t *testing.T, dir, of string) string {
	t.Helper()
	program := filepath.Join(dir, filepath.Base(of))
	if of == "." {
		program = filepath.Join(dir, "colligo")
	}
	build := exec.Command("go", "build", "-o", program, of)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=-buildvcs=false")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// TestStatic builds the program as README says. It asks for no dynamic linker and carries no foreign-call runtime. Its doctor
// is the program beside it.
func TestStatic(t *testing.T) {
	program := built(t, t.TempDir(), ".")
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
	if runtime.GOOS != "linux" {
		return
	}
	out, err := exec.Command(program, "version").Output()
	require.NoError(t, err)
	require.Regexp(t, `^colligo \S.*, go1\..*, linux/`+runtime.GOARCH+"\n$", string(out))
	out, err = exec.Command(program, "settings").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "COLLIGO_CONNECT_TIMEOUT_SEC")
	out, err = exec.Command(program, "run", "-n", "2", program, "version").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "[1] colligo ")

	alone := exec.Command(program, "doctor")
	alone.Env = []string{"PATH=" + t.TempDir()}
	out, err = alone.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "go install github.com/colligo-go/colligo/cmd/colligo-doctor@latest")
	for _, help := range []string{"-h", "--help"} {
		alone = exec.Command(program, "doctor", help)
		alone.Env = []string{"PATH=" + t.TempDir()}
		out, err = alone.Output()
		require.NoError(t, err)
		require.Regexp(t, `(?s)^usage:\n  colligo doctor \[flags\] .*go install github.com/colligo-go/colligo/cmd/colligo-doctor@latest`, string(out))
	}
	built(t, filepath.Dir(program), "../colligo-doctor")
	out, err = exec.Command(program, "doctor", "-mib", "0").CombinedOutput()
	require.Equal(t, 2, err.(*exec.ExitError).ExitCode())
	require.Contains(t, string(out), "-mib 0: from 1 to 4096")
	out, err = exec.Command(program, "doctor", "-help").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "-nccl")
}

func TestVersion(t *testing.T) {
	for want, info := range map[string]*debug.BuildInfo{
		"v1.2.3":      {Main: debug.Module{Version: "v1.2.3"}},
		"development": {Main: debug.Module{Version: "(devel)"}},
		"development at abc and changes": {Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"},
			{Key: "vcs.modified", Value: "true"}}},
	} {
		require.Equal(t, want, versionOf(info, true))
	}
	require.Equal(t, "of unknown version", versionOf(nil, false))
	o := command(t, "version")
	require.Zero(t, o.code)
	require.True(t, strings.HasPrefix(o.stdout, "colligo "))
}
