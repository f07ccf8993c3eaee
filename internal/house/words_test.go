package house

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// vague names say nothing about what a package is for.
var vague = []string{"util", "utils", "common", "base", "helper", "helpers", "types", "misc"}

func TestPackageComments(t *testing.T) {
	comments := map[string]int{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		if comments[s.dir] += 0; s.ast.Doc != nil {
			comments[s.dir] += len(s.ast.Doc.Text())
		}
		if slices.Contains(vague, s.ast.Name.Name) || slices.Contains(vague, path.Base(s.dir)) {
			t.Errorf("%s: a package called %s", s.name, s.ast.Name.Name)
		}
	}
	for dir, n := range comments {
		if n < 100 {
			t.Errorf("package %s has a comment of %d letters; say its purpose, its invariants and what it never does", dir, n)
		}
	}
}

// postponed finds what would have been done by now. The pattern is spelt so that it does not find itself.
var postponed = regexp.MustCompile(`\b(TO[D]O|FIX[M]E|XX[X]|(?i:not[ ]implemented|un[i]mplemented|for[ ]now))\b`)

func TestNothingPostponed(t *testing.T) {
	walk(t, func(name, text string) {
		if name == "LICENSE" || strings.HasSuffix(name, ".sum") || strings.Contains(text, "\x00") { // the last: binary
			return
		}
		for i, line := range strings.Split(text, "\n") {
			if found := postponed.FindString(line); found != "" {
				t.Errorf("%s:%d: %q", name, i+1, found)
			}
		}
	})
}
