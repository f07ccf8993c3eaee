package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// quoted are the times and ranks of a report that differ from run to run.
var quoted = regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s)\b|longest all_reduce #\d|\[rank \d of group 0\]`)

// TestQuotedReport runs the worked case of docs/debugging.md, with a shorter limit. The page quotes what colligo trace says of it.
func TestQuotedReport(t *testing.T) {
	t.Parallel()
	dir, dumps := built(t), filepath.Join(t.TempDir(), "dumps")
	job := exec.Command(filepath.Join(dir, "colligo"), "run", "-n", "3", "--", filepath.Join(dir, "stuck"))
	job.Env = append(os.Environ(), "COLLIGO_TIMEOUT_SEC=3", "COLLIGO_FR_DUMP_TEMP_FILE="+dumps+"/rank_")
	out, err := job.CombinedOutput()
	require.Error(t, err, "%s", out)
	report, err := exec.Command(filepath.Join(dir, "colligo"), "trace", dumps).Output()
	require.Error(t, err, "something is wrong, so the exit code is 1")
	page, err := os.ReadFile(filepath.Join(root, "docs", "debugging.md"))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(page), "colligo trace -html job.html /tmp/stuck\n\n```text\n")
	quote, _, _ := strings.Cut(rest, "```")
	require.Equal(t, quoted.ReplaceAllString(string(report), "…"), quoted.ReplaceAllString(quote, "…"))
}
