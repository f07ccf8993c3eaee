//go:build amd64 || arm64

package nccl

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
)

// shared compiles the library of testdata for a version, loads it by Open, and returns it. The function tells the calls that it has seen.
func shared(t *testing.T, version int, suffix string) (*Library, func() string) {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc to compile a shared object with NCCL's symbols:", err)
	}
	path := filepath.Join(t.TempDir(), fmt.Sprintf("libnccl%d.so", version))
	out, err := exec.CommandContext(t.Context(), gcc, "-shared", "-fPIC", "-O1", fmt.Sprintf("-DVERSION=%d", version),
		fmt.Sprintf("-DNUMBERS=%q", FormatVersion(version)), fmt.Sprintf("-DSUFFIX=%q", suffix), "-o", path, "testdata/library.c").CombinedOutput()
	require.NoError(t, err, string(out))
	l, err := Open(path)
	require.NoError(t, err)
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	require.NoError(t, err)
	at, err := purego.Dlsym(handle, "seen")
	require.NoError(t, err)
	return l, func() string {
		p, _, _ := purego.SyscallN(at)
		return goString(p)
	}
}

const none = undefined

// every sets all fields of a configuration.
var every = Config{NonBlocking: true, CGAClusterSize: 2, MinCTAs: 3, MaxCTAs: 4, NetName: "Socket", SplitShare: true, TrafficClass: 5,
	CommName: "a name", CollnetEnable: true, CTAPolicy: 6, ShrinkShare: true, NVLSCTAs: 7, ChannelsPerNetPeer: 8, NVLinkCentricSched: true,
	GraphUsage: GraphsNone, RMAContexts: 9, MaxP2PPeers: 10, GraphStreamOrdering: Off}

// TestSharedConfig has a C compiler read the fields of configurations in the layouts of several versions.
func TestSharedConfig(t *testing.T) {
	type version struct {
		version int
		config  Config
		set     string // the fields of the configuration
		unset   string // those of one that sets a field alone that all versions have
	}
	base := Config{NonBlocking: true}
	at17 := base
	at17.CGAClusterSize, at17.MinCTAs, at17.MaxCTAs, at17.NetName = 2, 3, 4, "Socket"
	at18 := at17
	at18.SplitShare = true
	at26 := at18
	at26.TrafficClass = 5
	at27 := at26
	at27.CommName, at27.CollnetEnable, at27.CTAPolicy, at27.ShrinkShare, at27.NVLSCTAs = "a name", true, 6, true, 7
	at28 := at27
	at28.ChannelsPerNetPeer, at28.NVLinkCentricSched = 8, true
	at29 := at28
	at29.GraphUsage, at29.RMAContexts = GraphsNone, 9
	var set, unset string
	u := fmt.Sprint(none)
	for _, v := range []version{
		{21400, base, "", ""},
		{21703, at17, " cga 2 min 3 max 4 net Socket", " cga U min U max U net none"},
		{21805, at18, " split 1", " split U"},
		{22502, at18, "", ""},
		{22602, at26, " class 5", " class U"},
		{22707, at27, " name a name collnet 1 policy 6 shrink 1 nvls 7", " name none collnet U policy U shrink U nvls U"},
		{22809, at28, " channels 8 nvlink 1", " channels U nvlink U"},
		{22903, at29, " graphs 0 rma 9", " graphs U rma U"},
		{23001, every, " peers 10 ordering 0", " peers U ordering U"},
		{23104, every, "", ""},
	} {
		set, unset = set+v.set, unset+strings.ReplaceAll(v.unset, "U", u)
		t.Run(FormatVersion(v.version), func(t *testing.T) {
			l, seen := shared(t, v.version, "")
			id, err := l.NewUniqueID()
			require.NoError(t, err)
			c, err := l.NewComm(id, 5, 8, v.config)
			require.NoError(t, err)
			require.NoError(t, c.Settle(t.Context()))
			head := fmt.Sprintf("init size 8 rank 5 id %d config fits 1 magic cafebeef version %d blocking 0", idSum, min(v.version, newest))
			require.Equal(t, head+set+"\n", seen())
			_, err = l.NewComm(id, 5, 8, base)
			require.NoError(t, err)
			require.Equal(t, head+unset+"\n", seen())
		})
	}
}

// idSum is what the library makes of the bytes of its identity, wherever these lie when they are passed by value.
var idSum = func() (s uint32) {
	for i := range 128 {
		s = s*31 + uint32(byte(i*7+1))
	}
	return s
}()

// TestSharedCalls has a C compiler read the arguments of every function.
func TestSharedCalls(t *testing.T) {
	l, seen := shared(t, 23001, "")
	require.Equal(t, "2.30.1", l.Version())
	id, err := l.NewUniqueID()
	require.NoError(t, err)
	c, err := l.NewComm(id, 5, 8, Config{})
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("init size 8 rank 5 id %d\n", idSum), seen())
	sum, err := c.Reduction(colligo.BFloat16, colligo.KindMin)
	require.NoError(t, err)
	calls := []struct {
		call func() error
		want string
	}{
		{func() error { return c.AllReduce(0x10, 0x20, 1<<40, sum, 0x30) },
			"all_reduce 10 20 1099511627776 type 9 op 3 comm 1234567890 stream 30"},
		{func() error { return c.Reduce(0x10, 0x20, 11, sum, 6, 0x30) }, "reduce 10 20 11 type 9 op 3 root 6 comm 1234567890 stream 30"},
		{func() error { return c.ReduceScatter(0x10, 0x20, 11, sum, 0x30) }, "reduce_scatter 10 20 11 type 9 op 3 comm 1234567890 stream 30"},
		{func() error { return c.AllGather(0x10, 0x20, 11, colligo.Int64, 0x30) }, "all_gather 10 20 11 type 4 comm 1234567890 stream 30"},
		{func() error { return c.Broadcast(0x10, 0x20, 11, colligo.Complex64, 6, 0x30) },
			"broadcast 10 20 88 type 1 root 6 comm 1234567890 stream 30"},
		{func() error { return c.Broadcast(0x10, 0x10, 11, colligo.Float8E5M2, 6, 0x30) },
			"bcast 10 11 type 11 root 6 comm 1234567890 stream 30"},
		{func() error { return c.Send(0x10, 11, colligo.Float16, 7, 0x30) }, "send 10 11 type 6 peer 7 comm 1234567890 stream 30"},
		{func() error { return c.Recv(0x10, 11, colligo.Float16, 7, 0x30) }, "recv 10 11 type 6 peer 7 comm 1234567890 stream 30"},
		{func() error { return c.Group(func() error { return nil }) }, "start\nend"},
		{c.Finalize, "finalize 1234567890"},
		{c.Close, "destroy 1234567890"},
		{func() error { return premultiplied(c) }, "premul 1.5 type 7 comm 1234567890\nundo 17 comm 1234567890\npremul at 40 type 7 comm 1234567890"},
		{func() error { return windows(c) }, "register 1234567890 40 4096\nderegister 1234567890 5678\n" +
			"window 1234567890 40 4096 flags 1\nno window 1234567890 abcd\nalloc 77\nfree 900000"},
	}
	for _, x := range calls {
		require.NoError(t, x.call())
		require.Equal(t, x.want+"\n", seen())
	}
	n, err := c.Device()
	require.NoError(t, err)
	require.Equal(t, 3, n)
}

func premultiplied(c *Comm) error {
	r, err := c.PremulSum(colligo.Float32, []byte{0, 0, 0xc0, 0x3f})
	if err != nil || r.Op != 17 {
		return fmt.Errorf("%v, %w", r.Op, err)
	}
	if err := r.Release(); err != nil {
		return err
	}
	_, err = c.PremulSumOn(colligo.Float32, 0x40)
	return err
}

func windows(c *Comm) error {
	for _, take := range []func() (*Registration, error){
		func() (*Registration, error) { return c.Register(0x40, 4096) },
		func() (*Registration, error) { return c.RegisterWindow(0x40, 4096, 1) },
	} {
		r, err := take()
		if err != nil {
			return err
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	at, err := c.library.MemAlloc(77)
	if err != nil {
		return err
	}
	return c.library.MemFree(at)
}

// TestSharedParts makes communicators of one, of several devices, and by several identities.
func TestSharedParts(t *testing.T) {
	l, seen := shared(t, 22703, "")
	id, err := l.NewUniqueID()
	require.NoError(t, err)
	u := fmt.Sprint(none)
	tail := strings.ReplaceAll(" cga U min U max U net none split U class U name none collnet U policy U shrink U nvls U\n", "U", u)
	c, err := l.NewCommScalable([]UniqueID{{}, *id}, 1, 2, Config{})
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("scalable size 2 rank 1 ids 2 last %d config fits 1 magic cafebeef version 22703 blocking 1", idSum)+tail, seen())
	part, err := c.Split(3, -2, Config{})
	require.NoError(t, err)
	require.Equal(t, "split 9 color 3 key -2 config none\n", seen())
	require.Equal(t, [2]int{5, 8}, [2]int{part.Rank(), part.Size()})
	part, err = c.Split(NoColor, 1, Config{})
	require.NoError(t, err)
	require.Nil(t, part)
	require.Equal(t, "split 9 color -1 key 1 config none\n", seen())
	_, err = c.Shrink([]int{4, 2}, Config{}, ShrinkAbort)
	require.NoError(t, err)
	require.Equal(t, "shrink 9 without 2, last 2 flags 1 config fits 1 magic cafebeef version 22703 blocking 1"+tail, seen())
	all, err := l.NewComms([]int{2, 0})
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "all 0 of 2 device 2\nall 1 of 2 device 0\n", seen())
	require.NoError(t, all[1].Abort())
	require.Equal(t, "abort 65\n", seen())
}

// TestSharedErrors has the texts of the library in errors, and refuses what an old one lacks without calling it.
func TestSharedErrors(t *testing.T) {
	l, _ := shared(t, 22809, "")
	c, err := l.NewComm(new(UniqueID), 0, 1, Config{})
	require.NoError(t, err)
	sum, err := c.Reduction(colligo.Float32, colligo.KindSum)
	require.NoError(t, err)
	err = c.AllReduce(1, 2, 13, sum, 0)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, Error{Function: "ncclAllReduce", Result: InvalidArgument, Text: "invalid argument", Last: "thirteen is not allowed",
		Version: "2.28.9", Path: l.Path}, *e)

	old, seen := shared(t, 2408, "")
	require.Equal(t, "2.4.8", old.Version())
	require.Equal(t, 20408, old.VersionCode())
	c, err = old.NewComm(new(UniqueID), 0, 1, Config{})
	require.NoError(t, err)
	seen()
	require.EqualError(t, c.Send(1, 2, colligo.Float32, 0, 0),
		"nccl: ncclSend needs NCCL 2.7.0 or newer (NCCL version 2.4.8, "+old.Path+")")
	_, err = c.Reduction(colligo.BFloat16, colligo.KindSum)
	require.ErrorContains(t, err, "need NCCL 2.10.0 or newer")
	require.NoError(t, c.Broadcast(1, 1, 3, colligo.BFloat16, 0, 0))
	require.Equal(t, "bcast 1 6 type 1 root 0 comm 1234567890 stream 0\n", seen())
	require.Error(t, c.AllReduce(1, 2, 13, sum, 0))
	_, err = Open(filepath.Join(t.TempDir(), "libnccl.so"))
	require.ErrorIs(t, err, ErrNotFound)
}

// TestSharedSuffix finds the version's suffix in the file of the library.
func TestSharedSuffix(t *testing.T) {
	for _, suffix := range []string{"", "rc1", "-nightly"} {
		l, _ := shared(t, 22809, suffix)
		require.Equal(t, suffix, l.VersionSuffix())
	}
}

// TestAskedPython takes the place that a Python tells, and gives up one that does not answer.
func TestAskedPython(t *testing.T) {
	require.Empty(t, asked("/nowhere/python3"))
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to ask:", err)
	}
	folder := t.TempDir()
	at := filepath.Join(folder, "nvidia", "nccl", "lib", "libnccl.so.2")
	ctx := context.WithoutCancel(t.Context())
	for _, line := range []string{"mkdir -p " + filepath.Dir(at) + " " + folder + "/torch", "touch " + at + " " + folder + "/torch/__init__.py"} {
		require.NoError(t, exec.CommandContext(ctx, "sh", "-c", line).Run())
	}
	t.Setenv("PYTHONPATH", folder)
	// A busy machine's Python may need longer than it is given.
	require.Eventually(t, func() bool { return slices.Contains(asked(python), at) }, 2*time.Minute, time.Millisecond)
}

// TestOpenPlaces finds the library where the environment names it, beside the Python of an environment, and in a user's packages.
func TestOpenPlaces(t *testing.T) {
	l, _ := shared(t, 22809, "")
	t.Setenv(PathVariable, l.Path)
	got, err := Open("")
	require.NoError(t, err)
	require.Equal(t, l.Path, got.Path)
	t.Setenv(PathVariable, "/nowhere/libnccl.so.2")
	_, err = Open("")
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, "searched /nowhere/libnccl.so.2", "what is named is not looked for elsewhere")

	t.Setenv(PathVariable, "")
	library, err := os.ReadFile(l.Path)
	require.NoError(t, err)
	put := func(folder string) string {
		at := filepath.Join(folder, "lib/python3.11/site-packages"+wheel)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, library, 0o600))
		return at
	}
	for _, variable := range []string{"CONDA_PREFIX", "VIRTUAL_ENV"} {
		root := t.TempDir()
		at := put(root)
		t.Setenv(variable, root)
		got, err = Open("")
		require.NoError(t, err)
		require.Equal(t, at, got.Path, "%s, before any other place", variable)
	}
	home, pyenv := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PYENV_ROOT", pyenv)
	require.ElementsMatch(t, []string{put(home + "/.local"), put(pyenv + "/versions/3.11.4")}, expand(users()))
}
