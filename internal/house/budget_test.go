package house

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rewrite makes the tests write down what stands today. A review sees in the difference that no number grew.
var rewrite = flag.Bool("rewrite", false, "write testdata/*.txt anew")

// tight makes a budget fail that is larger than what stands, so that it has to be lowered at once.
const tight = true

// A budget bounds what older code has of something that new code must not have. Its file has one line for each key: the key,
// which may have spaces, and a number. A key that is not in the file has the budget 0. An empty budget has no file.
type budget struct {
	file  string
	found map[string][]string // by key, where it stands
}

func newBudget(name string) *budget {
	return &budget{filepath.Join("testdata", name+".txt"), map[string][]string{}}
}

// add notes one finding.
func (b *budget) add(key, at string, a ...any) {
	b.found[key] = append(b.found[key], fmt.Sprintf(at, a...))
}

// check compares what was found with the file.
func (b *budget) check(t *testing.T) {
	t.Helper()
	if *rewrite {
		b.write(t)
	}
	allowed := b.read(t)
	for _, key := range slices.Sorted(maps.Keys(b.found)) {
		if at := b.found[key]; len(at) > allowed[key] {
			t.Errorf("%s: %d, the budget is %d:\n\t%s", key, len(at), allowed[key], strings.Join(at, "\n\t"))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(allowed)) {
		if n := len(b.found[key]); n < allowed[key] && tight {
			t.Errorf("%s: lower the budget of %q from %d to %d (go test -run %s -rewrite)", b.file, key, allowed[key], n, t.Name())
		} else if n < allowed[key] {
			t.Logf("%s: %q is %d, the budget %d", b.file, key, n, allowed[key])
		}
	}
}

func (b *budget) read(t *testing.T) map[string]int {
	f, err := os.Open(b.file)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	defer f.Close()
	allowed := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		require.Positive(t, i, "%s: %s", b.file, line)
		n, err := strconv.Atoi(line[i+1:])
		require.NoError(t, err, b.file)
		allowed[line[:i]] = n
	}
	return allowed
}

func (b *budget) write(t *testing.T) {
	if len(b.found) == 0 {
		require.NoError(t, os.RemoveAll(b.file))
		return
	}
	var s strings.Builder
	s.WriteString("# What still stands, and may only become less. Written by go test ./internal/house -rewrite\n")
	for _, key := range slices.Sorted(maps.Keys(b.found)) {
		fmt.Fprintf(&s, "%s %d\n", key, len(b.found[key]))
	}
	require.NoError(t, os.MkdirAll("testdata", 0o755))
	require.NoError(t, os.WriteFile(b.file, []byte(s.String()), 0o644))
}
