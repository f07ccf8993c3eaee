package parity

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/colligo-go/colligo/internal/gputest"
	"github.com/colligo-go/colligo/internal/testload"
)

// Media that a row can run on. Where a test runs on simulated devices, it runs on real ones too if COLLIGO_GPU is set.
const (
	onSim       = "sim"       // CPU ranks over the simulated network
	onShm       = "shm"       // CPU ranks over shared memory
	onCudasim   = "cudasim"   // simulated devices
	onNCCL      = "nccl"      // simulated devices and a simulated NCCL
	onGPU       = "gpu"       // real devices
	inProcesses = "processes" // a process for each rank
	byItself    = "no ranks"  // one rank, or a call without one
)

// media is the order of the media in a row.
var media = []string{onSim, onShm, onCudasim, onNCCL, onGPU, inProcesses, byItself}

// ran has the media on which each test of this run has run.
var ran = struct {
	sync.Mutex
	by map[string]map[string]bool
}{by: map[string]map[string]bool{}}

// runs notes media on which a test runs.
func runs(t *testing.T, on ...string) {
	test, _, _ := strings.Cut(t.Name(), "/")
	ran.Lock()
	defer ran.Unlock()
	if ran.by[test] == nil {
		ran.by[test] = map[string]bool{}
	}
	for _, m := range on {
		ran.by[test][m] = true
	}
}

// whole reports whether this process runs all tests of the package.
func whole() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(name).Value.String() != "" {
			return false
		}
	}
	return sharedMemory && !testing.Short()
}

// TestMain compares the media in ../PARITY.md with those on which the tests have run, or writes them there. More tests run at a
// time than there are processors, for tests that run beside others wait for time limits.
func TestMain(m *testing.M) {
	gputest.Prepare()
	if !underRace {
		testload.AtLeast(16)
	}
	code := m.Run()
	if code == 0 && whole() {
		if err := holdMedia(); err != nil {
			fmt.Fprintln(os.Stderr, "parity:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// holdMedia compares or writes.
func holdMedia() error {
	now := map[string][]string{}
	for test, on := range ran.by {
		for _, m := range media {
			if on[m] {
				now[test] = append(now[test], m)
			}
		}
	}
	tests, err := goTests(".")
	if err != nil {
		return err
	}
	if *update {
		return os.WriteFile(document, render(tests, now), 0o644)
	}
	written, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	for _, r := range rowsOf(tests, mediaIn(written)) {
		if r.test != "" && strings.Join(r.media, ", ") != strings.Join(now[r.test], ", ") {
			return fmt.Errorf("%s has run on %v, %s says %v: run go test ./pg/parity -update", r.test, now[r.test], document, r.media)
		}
	}
	return nil
}
