package docs

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	walk    = flag.Bool("walks", false, "take the walks of docs/walks.md in a clone, and print the times")
	modules = flag.Bool("walks.modules", false, "begin each command with an empty module cache too")
)

// walksLimit is how long a first result may take.
const walksLimit = 60 * time.Second

// walksRow is a row of the tables of docs/walks.md: a command, or a mark that the last one comes again, and the seconds it took.
var walksRow = regexp.MustCompile("(?m)^\\| (?:`([^`]+)`|(the same again)) \\| ([0-9.]+)[^|]*\\|")

// TestWalks holds the times of docs/walks.md to the limit. With -walks it clones the repository and runs every command there, each with an
// empty build cache. It skips commands of a Python that has no PyTorch.
func TestWalks(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "walks.md"))
	require.NoError(t, err)
	rows := walksRow.FindAllStringSubmatch(string(page), -1)
	require.GreaterOrEqual(t, len(rows), 6, "the pattern has missed rows")
	for _, row := range rows {
		seconds, err := strconv.ParseFloat(row[3], 64)
		require.NoError(t, err)
		require.LessOrEqual(t, seconds, walksLimit.Seconds(), row[0])
	}
	if !*walk {
		return
	}
	w := walker{t: t, dir: t.TempDir()}
	w.run("git", "-c", "safe.directory=*", "clone", "--quiet", mustAbs(t, root), filepath.Join(w.dir, "colligo"))
	for _, row := range rows {
		if row[1] != "" {
			w.command = strings.Fields(row[1])
			w.empty()
		}
		if python := w.python(); python != "" && exec.Command(python, "-c", "import torch").Run() != nil {
			t.Logf("%7s    %s: %s has no PyTorch", "left out", row[1], python)
			continue
		}
		took := w.run(w.command[0], w.command[1:]...)
		require.LessOrEqual(t, took, walksLimit, row[0])
	}
}

// walker runs commands in a clone.
type walker struct {
	t       *testing.T
	dir     string
	caches  int
	env     []string
	command []string
}

// empty has the commands that follow begin with empty caches.
func (w *walker) empty() {
	w.caches++
	cache := filepath.Join(w.dir, "caches"+strconv.Itoa(w.caches))
	w.env = append(os.Environ(), "GOCACHE="+filepath.Join(cache, "build"))
	if *modules {
		w.env = append(w.env, "GOMODCACHE="+filepath.Join(cache, "modules"), "GOFLAGS=-modcacherw")
	}
}

// python returns the Python that the command names, "" if none.
func (w *walker) python() string {
	for i, word := range w.command {
		if word == "-python" {
			return w.command[i+1]
		}
	}
	return ""
}

// run runs a command, prints how long it took and the end of what it said, and fails the test with it.
func (w *walker) run(name string, args ...string) time.Duration {
	w.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = w.env, w.dir
	if w.caches > 0 {
		cmd.Dir = filepath.Join(w.dir, "colligo")
	}
	began := time.Now()
	said, err := cmd.CombinedOutput()
	took := time.Since(began)
	require.NoError(w.t, err, "%s", said)
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	w.t.Logf("%6.1f s  %s: %s", took.Seconds(), strings.Join(cmd.Args, " "), lines[len(lines)-1])
	return took
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	return path
}
