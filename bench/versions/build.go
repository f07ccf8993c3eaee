package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// versions are the folders of both, in the order of the ratio's parts.
var versions = []string{"old", "new"}

// program is the name of a package's test program.
func program(pkg string) string { return strings.ReplaceAll(pkg, "/", "_") + ".test" }

// buildBoth builds the programs of both versions into dir/old and dir/new. A revision is checked out in a work tree of its own.
func (o *options) buildBoth(dir string, stderr io.Writer) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	top, err := output("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	for i, revision := range []string{o.old, o.new} {
		to := filepath.Join(dir, versions[i])
		if revision == "" {
			fmt.Fprintf(stderr, "building the working tree\n")
			if err := o.buildOne(top, to); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(stderr, "building %s\n", revision)
		tree, err := os.MkdirTemp("", "colligo")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tree)
		if _, err := output(top, "git", "worktree", "add", "--force", "--detach", tree, revision); err != nil {
			return err
		}
		err = o.buildOne(tree, to)
		if _, e := output(top, "git", "worktree", "remove", "--force", tree); err == nil {
			err = e
		}
		if err != nil {
			return fmt.Errorf("%s: %w", revision, err)
		}
	}
	return nil
}

// buildOne builds the programs of one version, without cgo.
func (o *options) buildOne(top, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, pkg := range o.packages {
		if _, err := output(top, "go", "test", "-c", "-o", filepath.Join(to, program(pkg)), "./"+pkg); err != nil {
			return err
		}
	}
	if len(o.collectives) == 0 {
		return nil
	}
	_, err := output(top, "go", "build", "-C", "bench", "-o", filepath.Join(to, "bench"), ".")
	return err
}

// output runs a command in a folder and returns what it prints, without the last line's end.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		said := ""
		if e, ok := err.(*exec.ExitError); ok {
			said = ": " + strings.TrimSpace(string(e.Stderr))
		}
		return "", fmt.Errorf("%s: %w%s", strings.Join(cmd.Args, " "), err, said)
	}
	return strings.TrimSpace(string(out)), nil
}
