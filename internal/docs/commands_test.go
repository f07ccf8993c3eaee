package docs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// programs are those whose own parser checks the flags, by the name that documents call them by.
var programs = map[string]string{
	"colligo": "./cmd/colligo", "colligo-doctor": "./cmd/colligo-doctor", "bench": "./bench",
}

// foreign are programs that documents name and nothing here can check.
var foreign = []string{"cd", "curl", "docker", "git", "kill", "kubectl", "mpirun", "openssl", "python3", "sbatch", "srun", "torchfrtrace",
	"torchrun", "ulimit"}

// TestCommands parses every command of the documents.
func TestCommands(t *testing.T) {
	c := checker{bin: built(t), seen: map[string]bool{}}
	for _, d := range documents(t) {
		for _, p := range d.commands {
			if err := c.command(words(p.text)); err != nil {
				t.Errorf("%s: %s: %v", p.at, p.text, err)
			}
		}
		for _, p := range d.spans {
			if first := words(p.text); len(first) < 2 || first[0] != "go" && programs[first[0]] == "" {
				continue
			}
			if err := c.command(words(p.text)); err != nil {
				t.Errorf("%s: %s: %v", p.at, p.text, err)
			}
		}
	}
	require.Greater(t, len(c.seen), 10, "most commands have been missed")
}

// checker has the programs built.
type checker struct {
	bin  string
	seen map[string]bool
}

var (
	assignment = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*=`)
	word       = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
)

// words splits a command, without its comment, its variables, and what stands behind an operator of the shell.
func words(text string) (all []string) {
	for _, w := range word.FindAllString(text, -1) {
		if strings.HasPrefix(w, "#") || slices.Contains([]string{"|", "&", "&&", "||", ";", ">", "2>", "2>&1"}, w) {
			break
		}
		if len(all) == 0 && assignment.MatchString(w) {
			continue
		}
		all = append(all, strings.Trim(w, `'"`))
	}
	return all
}

// command checks one command, and the one that it starts.
func (c *checker) command(args []string) error {
	if len(args) == 0 || slices.Contains(foreign, args[0]) || args[0] == "./program" {
		return nil
	}
	name := args[0]
	switch {
	case name == "go" && len(args) > 1:
		return c.goCommand(args[1], args[2:])
	case programs[name] != "":
		return c.ours(name, args[1:])
	case strings.HasPrefix(name, ".ci/"), strings.HasPrefix(name, "examples/"):
		return isThere(name)
	}
	return errors.New("neither a program of the repository nor one of the list of foreign ones")
}

// goCommand checks what the go command is given: packages of the repository, and flags of their tests.
func (c *checker) goCommand(verb string, args []string) error {
	packages, rest := []string{}, []string{}
	for i, a := range args {
		switch {
		case strings.HasPrefix(a, "./"), strings.HasPrefix(a, module):
			if packages = append(packages, a); verb == "run" {
				return c.goRun(a, args[i+1:])
			}
		default:
			rest = append(rest, a)
		}
	}
	for _, p := range packages {
		p, _, _ = strings.Cut(strings.TrimPrefix(p, module), "@")
		if err := isThere(strings.TrimSuffix(strings.Trim(p, "/"), "...")); err != nil {
			return err
		}
	}
	switch verb {
	case "test":
		return testFlags(packages, rest)
	case "get", "install", "build", "vet", "generate", "doc", "version", "mod":
		return nil
	}
	return fmt.Errorf("go %s is not known here", verb)
}

// goRun checks a program of the repository and its arguments.
func (c *checker) goRun(path string, args []string) error {
	for name, of := range programs {
		if of == path {
			return c.ours(name, args)
		}
	}
	return isThere(path)
}

// ours has a program parse its arguments: behind a -help it does nothing else.
func (c *checker) ours(name string, args []string) error {
	if name == "colligo" && len(args) > 0 && args[0] == "run" {
		end := flagsEnd(args[1:]) + 1
		if end < len(args) && args[end] == "--" {
			args = slices.Delete(slices.Clone(args), end, end+1)
		}
		if end < len(args) && args[end] != "PROGRAM" {
			if err := c.command(afterAssignments(args[end:])); err != nil {
				return err
			}
		}
		args = args[:end]
	}
	key := strings.Join(append([]string{name}, args...), " ")
	if c.seen[key] {
		return nil
	}
	c.seen[key] = true
	out, err := exec.Command(filepath.Join(c.bin, name), append(slices.Clone(args), "-help")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// afterAssignments cuts env and its variables off a command.
func afterAssignments(args []string) []string {
	if args[0] != "env" {
		return args
	}
	i := 1
	for i < len(args) && assignment.MatchString(args[i]) {
		i++
	}
	return args[i:]
}

// flagsEnd returns how many arguments are flags with their values. Each flag of colligo run has one.
func flagsEnd(args []string) int {
	i := 0
	for i < len(args) && strings.HasPrefix(args[i], "-") && args[i] != "--" {
		if i++; !strings.Contains(args[i-1], "=") {
			i++
		}
	}
	return min(i, len(args))
}

// isThere reports whether a path is in the tree.
func isThere(path string) error {
	if path == "" {
		return nil
	}
	_, err := os.Stat(filepath.Join(root, filepath.FromSlash(path)))
	return err
}

// known are flags of go test itself: whether each takes a value.
var known = map[string]bool{"-run": true, "-v": false, "-parallel": true, "-count": true, "-timeout": true, "-race": false, "-bench": true,
	"-fuzz": true, "-tags": true, "-short": false, "-cpu": true, "-exec": true}

// testFlags checks that tests of a package have what go test is told: names that match, and flags of their own.
func testFlags(dirs, args []string) error {
	text := ""
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*_test.go"))
		if err != nil {
			return err
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			text += string(b)
		}
	}
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		takes, ofGo := known[name]
		switch {
		case !strings.HasPrefix(name, "-"):
			continue // the value of a test's own flag
		case !ofGo:
			if own := regexp.MustCompile(`flag\.\w+\([^"\n]*"` + regexp.QuoteMeta(name[1:]) + `"`); !own.MatchString(text) {
				return fmt.Errorf("no test there has the flag %s", name)
			}
			continue
		case takes && !joined:
			if i++; i == len(args) {
				return fmt.Errorf("%s has no value", name)
			}
			value = args[i]
		}
		if (name == "-run" || name == "-bench" || name == "-fuzz") && !declares(text, value) {
			return fmt.Errorf("nothing there is matched by %s %s", name, value)
		}
	}
	return nil
}

// declares reports whether a pattern of go test matches the name of a test, benchmark or fuzz target.
func declares(text, pattern string) bool {
	first, _, _ := strings.Cut(pattern, "/")
	want, err := regexp.Compile(first)
	if err != nil {
		return false
	}
	for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz|Example)\w*)\(`).FindAllStringSubmatch(text, -1) {
		if want.MatchString(m[1]) {
			return true
		}
	}
	return false
}
