package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/journal"
)

// TestMain makes this program a rank where launch has started it as one.
func TestMain(m *testing.M) {
	if os.Getenv("RANK") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// pythons are the programs with PyTorch, and their versions: those that COLLIGO_TEST_PYTHON lists, or else Debian's or the path's.
func pythons(t *testing.T) map[string]string {
	t.Helper()
	list := filepath.SplitList(os.Getenv("COLLIGO_TEST_PYTHON"))
	named := len(list) > 0
	if !named {
		list = []string{"/usr/bin/python3", "python3"}
	}
	found := map[string]string{}
	for _, python := range list {
		version, err := exec.Command(python, "-c", "import torch; print(torch.__version__)").Output()
		if named {
			require.NoError(t, err, python)
		}
		if err == nil && (named || len(found) == 0) {
			found[python] = strings.TrimSpace(string(version))
		}
	}
	return found
}

// TestTorchExample trains with ranks in Go, and finds each tensor of the model equal on all ranks.
func TestTorchExample(t *testing.T) {
	if testing.Short() {
		t.Skip("ranks of PyTorch take long")
	}
	all := pythons(t)
	if len(all) == 0 {
		t.Skip("no Python with PyTorch here; Debian has it as python3-torch, and COLLIGO_TEST_PYTHON names another")
	}
	for python, version := range all {
		for _, ranks := range []int{2, 4} {
			t.Run(fmt.Sprintf("PyTorch %s, %d ranks", version, ranks), func(t *testing.T) {
				t.Parallel()
				var out journal.Journal
				require.NoError(t, launch(&out, python, version, ranks), "%s", out.String())
				for _, says := range []string{fmt.Sprintf("rank 0 is PyTorch %s of %d ranks", version, ranks), "step 59: loss 0.0",
					"weight equal on all ranks: True", "bias equal on all ranks: True"} {
					require.Contains(t, out.String(), says)
				}
				for rank := 1; rank < ranks; rank++ {
					require.Contains(t, out.String(), fmt.Sprintf("rank %d is in Go: weight [", rank))
					require.Contains(t, out.String(), fmt.Sprintf("rank %d is in Go: bias [", rank))
				}
			})
		}
	}
}
