package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A cache keeps the outputs of the compiler in the user's folder for caches, as go build does. A file's name is a hash of
// all that it depends on. That is the compiler, its arguments, and the source with the files that it includes. Removing the folder loses
// time only.
type cache struct {
	dir     string // empty: nothing is kept
	sources string
	version []byte // what the compiler says of itself
}

func newCache(sources string) (*cache, error) {
	version, err := exec.Command(clang, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", clang, err)
	}
	c := &cache{sources: sources, version: version}
	if dir, err := os.UserCacheDir(); err == nil {
		c.dir = filepath.Join(dir, "colligo-ptx")
	}
	return c, nil
}

// output returns what the compiler prints for a source, from before or made now.
func (c *cache) output(source string, args []string, compile func() ([]byte, error)) ([]byte, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q\n%q\n%q\n", c.version, args, source)
	if err := c.read(source, map[string]bool{}, func(name string, text []byte) { fmt.Fprintf(sum, "%q\n%q\n", name, text) }); err != nil {
		return nil, err
	}
	name := filepath.Join(c.dir, fmt.Sprintf("%x", sum.Sum(nil)))
	if text, err := os.ReadFile(name); c.dir != "" && err == nil {
		return text, nil
	}
	text, err := compile()
	if err == nil && c.dir != "" {
		c.keep(name, text)
	}
	return text, err
}

var includeLine = regexp.MustCompile(`(?m)^\s*#\s*include\s+(\S+)`)

// read calls f for a source and for the files that it includes, each once. It refuses files outside of the sources, for the cache would not
// see them change.
func (c *cache) read(name string, seen map[string]bool, f func(name string, text []byte)) error {
	if seen[name] {
		return nil
	}
	seen[name] = true
	text, err := os.ReadFile(filepath.Join(c.sources, name))
	if err != nil {
		return err
	}
	f(name, text)
	for _, m := range includeLine.FindAllSubmatch(text, -1) {
		included := string(m[1])
		if len(included) < 3 || included[0] != '"' || strings.ContainsAny(included, "/\\") {
			return fmt.Errorf("%s includes %s, which is no file beside it", name, included)
		}
		if err := c.read(string(bytes.Trim(m[1], `"`)), seen, f); err != nil {
			return err
		}
	}
	return nil
}

// keep stores an output. A file appears whole or not at all; without one the next run compiles again.
func (c *cache) keep(name string, text []byte) {
	if os.MkdirAll(c.dir, 0o755) != nil {
		return
	}
	part, err := os.CreateTemp(c.dir, "part-*")
	if err != nil {
		return
	}
	_, err = part.Write(text)
	if err2 := part.Close(); err != nil || err2 != nil || os.Rename(part.Name(), name) != nil {
		_ = os.Remove(part.Name())
	}
}
