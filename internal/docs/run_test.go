package docs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ran are the documents whose commands are run for real. Each command is either in runs or in unrun.
var ran = []string{"README.md", "docs/getting-started.md", "docs/debugging.md"}

// runs are their commands that run here, in this order. A command may be cut short by what is added to it.
var runs = []struct {
	command string
	more    string         // arguments that bound its time
	says    *regexp.Regexp // in what it prints
	codes   []int          // exit codes; nil is 0 alone
	quote   string         // the document has what it prints, in the text block that contains these words
}{
	{command: "go run ./cmd/colligo run -n 4 go run ./examples/hello", quote: "rank 0 of 4: sum [10]"},
	{command: "colligo run -n 8 -- ./program", says: regexp.MustCompile(`\[7\] rank 7 of 8: sum \[36\]`)},
	{command: "COLLIGO_TIMEOUT_SEC=10 COLLIGO_FR_DUMP_TEMP_FILE=/tmp/stuck/rank_ colligo run -n 3 -- go run ./examples/stuck", codes: []int{1},
		quote: "[1] WARN group failed"},
	{command: "colligo trace -html job.html /tmp/stuck", codes: []int{1}, quote: "ranks 0, 2 gave up, with a limit of 10s"},
	{command: "go run ./cmd/colligo trace -html job.html /tmp/job", codes: []int{1}, says: regexp.MustCompile(`rank 1 (has not entered|does not answer)`)},
	{command: "go run ./bench all_reduce -ranks 4", more: "-e 64Ki -n 5 -w 1", says: regexp.MustCompile(`# wrong elements: 0\n`)},
	{command: "go run ./bench all_reduce -ranks 8 -transport tcp -json", more: "-e 1Ki -n 5 -w 1", says: regexp.MustCompile(`"wrong":0`)},
	{command: "go run ./bench all_reduce all_gather -ranks 4 -plot busbw.svg", more: "-e 1Ki -n 5 -w 1", says: regexp.MustCompile(`# wrong elements: 0\n`)},
	{command: "colligo doctor", codes: []int{0, 1}, says: regexp.MustCompile(`(?i)host`)},
}

// unrun are the commands of these documents that do not run here, with the reason.
var unrun = map[string]string{
	"go test ./... ./bench/...":                                                                                          "is what runs this test",
	"go get github.com/colligo-go/colligo":                                                                               "needs a tagged version",
	"go get github.com/colligo-go/colligo/pg/pgotel":                                                                     "needs a tagged version",
	"go install github.com/colligo-go/colligo/cmd/colligo@latest":                                                        "needs a tagged version",
	"go install github.com/colligo-go/colligo/cmd/colligo-doctor@latest":                                                 "needs a tagged version",
	"srun -N 2 --ntasks-per-node 8 ./program":                                                                            "needs Slurm",
	"COLLIGO_FR_DUMP_TEMP_FILE=/tmp/job/rank_ ./program":                                                                 "is a rank of a launcher's job; the case of examples/stuck has the variable",
	"go run ./bench all_reduce -device cuda -compare nccl -b 1Ki -e 1Gi":                                                 "needs GPUs",
	"go run ./bench all_reduce -device cuda -compare nccl -register":                                                     "needs GPUs",
	"go run ./bench all_reduce -device cuda -compare nccl -graph 20":                                                     "needs GPUs",
	"go run ./bench all -device cuda -threads":                                                                           "needs GPUs",
	"go run ./bench all_reduce -ranks 4 -transport shm -compare openmpi -f 4 -markdown -plot docs/plots/openmpi-shm.svg": "needs Open MPI",
}

// examples are programs that run by the command in their package comment.
var examples = map[string]*regexp.Regexp{
	"hook": regexp.MustCompile(`\[0\] `), "pipeline": regexp.MustCompile(`\[\d\] `), "subgroups": regexp.MustCompile(`\[\d\] `),
	"shrink": regexp.MustCompile(`\[0\] `),
}

// shell runs commands of documents.
type shell struct {
	bin            string            // folder of the programs
	dumps, written string            // folders of dumps, and of other files
	text           map[string]string // of the documents
}

// TestCommandsRun runs the commands of the first documents that a reader follows, and compares what they print with what is quoted.
func TestCommandsRun(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of a Unix shell")
	}
	t.Parallel() // two of the commands wait for their limits
	s := &shell{bin: built(t), dumps: t.TempDir(), written: t.TempDir(), text: map[string]string{}}
	s.everyCommandIsKnown(t)
	for _, r := range runs {
		t.Run(r.command, func(t *testing.T) {
			out, code := s.run(t, r.command, r.more)
			want := r.codes
			if want == nil {
				want = []int{0}
			}
			require.Contains(t, want, code, out)
			if r.says != nil {
				require.Regexp(t, r.says, out)
			}
			if r.quote != "" {
				s.quoted(t, r.quote, out)
			}
		})
	}
	for name, says := range examples {
		t.Run("examples/"+name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(root, "examples", name, "main.go"))
			require.NoError(t, err)
			command := regexp.MustCompile(`(?m)^//\t(go run \./cmd/colligo run .*)$`).FindStringSubmatch(string(text))
			require.NotNil(t, command, "no command in the package comment")
			out, code := s.run(t, command[1], "")
			require.Zero(t, code, out)
			require.Regexp(t, says, out)
		})
	}
}

// everyCommandIsKnown demands that each command of the documents is in one of the tables, and reads the documents.
func (s *shell) everyCommandIsKnown(t *testing.T) {
	known, found := map[string]bool{}, map[string]bool{}
	for _, r := range runs {
		known[r.command] = true
	}
	for command := range unrun {
		known[command] = true
	}
	for _, d := range documents(t) {
		if !slices.Contains(ran, d.name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, d.name))
		require.NoError(t, err)
		s.text[d.name] = string(text)
		for _, p := range d.commands {
			command, _, _ := strings.Cut(p.text, " #")
			if command = strings.TrimSpace(command); !known[command] {
				t.Errorf("%s: %s is neither run nor listed as not to be run", p.at, command)
			}
			found[command] = true
		}
	}
	for command := range known {
		if !found[command] {
			t.Errorf("no document has %q any more", command)
		}
	}
}

// run runs a command of a document in the repository's top, with a folder of the test in place of what it writes to.
func (s *shell) run(t *testing.T, command, more string) (out string, code int) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for _, r := range [][2]string{{"/tmp/stuck", s.dumps}, {"/tmp/job", s.dumps}, {"job.html", filepath.Join(s.written, "job.html")},
		{"busbw.svg", filepath.Join(s.written, "busbw.svg")}, {"./program", filepath.Join(s.bin, "hello")}} {
		command = strings.ReplaceAll(command, r[0], r[1])
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", command+" "+more)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "PATH="+s.bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	cmd.WaitDelay = 10 * time.Second
	text, err := cmd.CombinedOutput()
	require.NoError(t, ctx.Err(), "%s: %s", command, text)
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return strings.ReplaceAll(string(text), s.dumps, "/tmp/stuck"), cmd.ProcessState.ExitCode()
}

// quoted demands that every line of a document's text block is among those printed. Lines may differ in times, in which of the waiting
// ranks was the first to give up, and in their order.
func (s *shell) quoted(t *testing.T, words, out string) {
	var printed []string
	for line := range strings.Lines(out) {
		printed = append(printed, leveled(line))
	}
	blocks := regexp.MustCompile("(?s)```text\n(.*?)```")
	for name, text := range s.text {
		for _, block := range blocks.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(block[1], words) {
				continue
			}
			for line := range strings.Lines(block[1]) {
				require.Contains(t, printed, leveled(line), "%s quotes %s\nthe command prints\n%s", name, line, out)
			}
			return
		}
	}
	t.Errorf("no document quotes %q", words)
}

var (
	clockTime = regexp.MustCompile(`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d `)
	duration  = regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms)\b`)
	longest   = regexp.MustCompile(`longest all_reduce #\d+`)
	firstRank = regexp.MustCompile(`(rank |rank=|rank_|^\[)[02]( reported| of group 0\]|\]|\b)`)
)

// leveled takes out of a line what differs from run to run.
func leveled(line string) string {
	line = clockTime.ReplaceAllString(strings.TrimRight(line, "\n"), "")
	line = longest.ReplaceAllString(duration.ReplaceAllString(line, "TIME"), "longest all_reduce")
	return firstRank.ReplaceAllString(line, "${1}R$2")
}
