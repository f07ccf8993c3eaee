package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// shared is the folder of the programs that several tests run, once one of the tests has had them built.
var shared struct {
	sync.Mutex
	dir string
}

// TestMain removes the shared programs in the end.
func TestMain(m *testing.M) {
	code := m.Run()
	if shared.dir != "" {
		if err := os.RemoveAll(shared.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// built returns the folder that has the programs of the documents, each under the name of its package. It builds them at the
// first call, without what a debugger needs, as go run does.
func built(t *testing.T) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.dir != "" {
		return shared.dir
	}
	dir, err := os.MkdirTemp("", "colligo")
	require.NoError(t, err)
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-w", "-o", dir+string(filepath.Separator),
		"./cmd/colligo", "./cmd/colligo-doctor", "./bench", "./examples/hello", "./examples/stuck")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, err, "%s", out)
	}
	shared.dir = dir
	return dir
}
