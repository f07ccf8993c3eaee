package house

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Comments cite in these forms, and in no other. N stands for a number.
//
//   - "invariant N", also of another package: "transport's invariant N", "invariant N of package transport".
//   - "step N of do", "step N of Group.do": of the numbered list in the comment on a function of the same package.
//   - "rule N of docs/architecture.md": of its list of rules.
//   - "by (N)", "see (N)": of the line that begins with (N), in the same file or in the package comment.
var (
	citesInvariant = regexp.MustCompile(`(?:(\w+)'s )?\binvariants? (\d+)(?: (?:to|and) (\d+))?(?: of package (\w+))?`)
	citesStep      = regexp.MustCompile(`\bsteps? (\d+)(?: (?:to|and) (\d+))? of (\w+(?:\.\w+)?)`)
	citesRule      = regexp.MustCompile(`\brules? (\d+)(?: (?:to|and) (\d+))?( of (\S+\.md))?`)
	citesPart      = regexp.MustCompile(`\b(?:by|see|of) \((\d)\)`)
	heading        = regexp.MustCompile(`(?m)^Invariants?\b[^\n]*(?:\n\n|:\n)`)
	numbered       = regexp.MustCompile(`(?m)^\s*(\d+)\. `)
	bracketed      = regexp.MustCompile(`(?m)^\s*(?:[A-Za-z]\w* )?\((\d)\) `)
)

// cites is what the comments of the tree may cite.
type cites struct {
	invariants map[string]map[int]bool // by folder
	functions  map[string]map[int]bool // by folder and function, such as "pg Group.do"
	parts      map[string]map[int]bool // in brackets, by folder of a package comment and by file
	folders    map[string][]string     // by package name
}

func citable(t *testing.T) *cites {
	c := &cites{map[string]map[int]bool{}, map[string]map[int]bool{}, map[string]map[int]bool{}, map[string][]string{}}
	for _, s := range sources(t) {
		if s.ast.Doc != nil {
			text := s.ast.Doc.Text()
			c.folders[s.ast.Name.Name] = append(c.folders[s.ast.Name.Name], s.dir)
			c.parts[s.dir] = numbersIn(bracketed, text)
			if at := heading.FindStringIndex(text); at != nil {
				c.invariants[s.dir] = numbersIn(numbered, text[at[1]:])
			} else {
				c.invariants[s.dir] = numbersIn(numbered, text)
			}
		}
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Doc != nil {
				c.functions[s.dir+" "+fullName(f)] = numbersIn(numbered, f.Doc.Text())
				c.functions[s.dir+" "+f.Name.Name] = numbersIn(numbered, f.Doc.Text())
			}
		}
	}
	for _, p := range passages(t) {
		if c.parts[p.file] == nil {
			c.parts[p.file] = map[int]bool{}
		}
		for n := range numbersIn(bracketed, p.text) {
			c.parts[p.file][n] = true
		}
	}
	return c
}

// fullName is "Group.Rank" for a method and the name for a function.
func fullName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	return base(f.Recv.List[0].Type).Name + "." + f.Name.Name
}

func numbersIn(pattern *regexp.Regexp, text string) map[int]bool {
	all := map[int]bool{}
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		all[n] = true
	}
	return all
}

// cited are the numbers from one to another, which may be empty.
func cited(from, to string) []int {
	a, _ := strconv.Atoi(from)
	b, err := strconv.Atoi(to)
	if err != nil {
		return []int{a}
	}
	return []int{a, b}
}

// unresolved returns what a comment cites and nobody has written.
func (c *cites) unresolved(p passage) []string {
	text := spaces.ReplaceAllString(p.text, " ")
	var all []string
	missing := func(in map[int]bool, from, to, what string) {
		for _, n := range cited(from, to) {
			if !in[n] {
				all = append(all, what)
				return
			}
		}
	}
	for _, m := range citesInvariant.FindAllStringSubmatch(text, -1) {
		missing(c.invariantsOf(p.dir, m[1]+m[4]), m[2], m[3], m[0])
	}
	for _, m := range citesStep.FindAllStringSubmatch(text, -1) {
		if m[3] != "the" && m[3] != "a" && m[3] != "all" && m[3] != "every" && m[3] != "one" {
			missing(c.functions[p.dir+" "+m[3]], m[1], m[2], m[0])
		}
	}
	for _, m := range citesRule.FindAllStringSubmatch(text, -1) {
		missing(ofDocument(m[4]), m[1], m[2], m[0])
	}
	for _, m := range citesPart.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		if !c.parts[p.dir][n] && !c.parts[p.file][n] {
			all = append(all, m[0])
		}
	}
	return all
}

// invariantsOf are those of a package by its name, or of the folder if that is empty.
func (c *cites) invariantsOf(dir, name string) map[int]bool {
	if name == "" {
		return c.invariants[dir]
	}
	if f := c.folders[name]; len(f) == 1 {
		return c.invariants[f[0]]
	}
	return nil
}

// ofDocument returns the numbers of a document's rules.
func ofDocument(name string) map[int]bool {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if name == "" || err != nil {
		return nil
	}
	_, rules, _ := strings.Cut(string(text), "\n## Rules\n")
	return numbersIn(numbered, rules)
}

// TestCitations resolves every number that a comment cites.
func TestCitations(t *testing.T) {
	c := citable(t)
	found := 0
	for _, p := range passages(t) {
		found += len(citesInvariant.FindAllString(p.text, -1))
		for _, what := range c.unresolved(p) {
			t.Errorf("%s:%d: %q is nowhere", p.file, p.line, what)
		}
	}
	require.Greater(t, found, 5)
}

// TestUnresolved holds the forms of citations.
func TestUnresolved(t *testing.T) {
	c := &cites{
		invariants: map[string]map[int]bool{"d": {1: true, 2: true}, "e": {7: true}},
		functions:  map[string]map[int]bool{"d Group.do": {1: true}},
		parts:      map[string]map[int]bool{"d": {4: true}, "d/x.go": {5: true}},
		folders:    map[string][]string{"e": {"e"}},
	}
	for text, want := range map[string]int{
		"holds invariant 2": 0, "invariants 1 and\n2": 0, "invariant 3": 1, "invariants 1 to 3": 1, "e's invariant 7": 0, "invariant 7 of package e": 0,
		"invariant 1 of package f": 1, "step 1 of Group.do": 0, "step 2 of Group.do": 1, "step 2 of the ring": 0, "rule 99 of docs/architecture.md": 1,
		"rule 3": 1, "by (4)": 0, "see (5)": 0, "by (6)": 1, "peer 2, step 1": 0,
	} {
		require.Len(t, c.unresolved(passage{file: "d/x.go", dir: "d", text: text}), want, text)
	}
}

// elsewhere are files that comments name and that are other projects'.
var elsewhere = regexp.MustCompile(`^(nccl\.h|cuda\.h|asm-generic/signal\.h|PERFORMANCE\.md|[a-z_]+_test\.go)$`)

var citesFile = regexp.MustCompile(`[\w./-]*\w\.(?:go|cu|h|md)\b`)

// TestFilesNamed asks that files exist that comments name: by the end of their path, or relative to the comment's folder.
func TestFilesNamed(t *testing.T) {
	known := map[string]bool{}
	walk(t, func(name, _ string) {
		for rest, more := name, true; more; _, rest, more = strings.Cut(rest, "/") {
			known[rest] = true
		}
	})
	for _, p := range passages(t) {
		for _, name := range citesFile.FindAllString(p.text, -1) {
			_, err := os.Stat(filepath.Join(root, filepath.FromSlash(p.dir), filepath.FromSlash(name)))
			if err != nil && !known[name] && !elsewhere.MatchString(name) {
				t.Errorf("%s:%d: there is no %s", p.file, p.line, name)
			}
		}
	}
}
