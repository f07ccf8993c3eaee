package average

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestInModule runs this package's tests in a module of a user's own, that has colligo as a dependency and no workspace.
func TestInModule(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	dir := t.TempDir()
	for name, from := range map[string]string{"average.go": "average.go", "average_test.go": "average_test.go", "go.sum": filepath.Join(root, "go.sum")} {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	colligo, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), moduleOf(string(colligo), root), 0o644))
	test := exec.Command("go", "test", "-mod=mod", ".")
	test.Dir = dir
	test.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOPROXY=off")
	out, err := test.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// moduleOf writes the go.mod of a user's module, which takes colligo from this folder. It names colligo's
// requirements, too, for nothing may be looked up on the network.
func moduleOf(colligo, root string) []byte {
	_, rest, _ := strings.Cut(colligo, "\n") // all but the line with the name
	return fmt.Appendf(nil, "module example.com/average\n%s\nrequire github.com/colligo-go/colligo v0.0.0\nreplace github.com/colligo-go/colligo => %s\n", rest, root)
}
