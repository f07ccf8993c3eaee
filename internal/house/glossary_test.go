package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// entry is one word of the glossary.
type entry struct {
	word, meaning, where, elsewhere string
	unused                          []string // in lower case, without their brackets
}

var backquoted = regexp.MustCompile("`([^`]+)`")

// glossary reads docs/glossary.md.
func glossary(t *testing.T) []entry {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "glossary.md"))
	require.NoError(t, err)
	var all []entry
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 2 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| word |") {
			continue
		}
		require.Len(t, cells, 7, line)
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		e := entry{word: cells[1], meaning: cells[2], where: cells[3], elsewhere: cells[4]}
		for _, m := range backquoted.FindAllStringSubmatch(cells[5], -1) {
			e.unused = append(e.unused, strings.ToLower(m[1]))
		}
		all = append(all, e)
	}
	require.Greater(t, len(all), 50)
	return all
}

// TestGlossary asks for each word once, in one sentence, and for a package that is there.
func TestGlossary(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range glossary(t) {
		if seen[e.word] {
			t.Errorf("%s stands twice", e.word)
		}
		seen[e.word] = true
		if len(sentencesOf(e.meaning)) != 1 || !strings.HasSuffix(e.meaning, ".") || words(e.meaning) > sentenceWords {
			t.Errorf("%s: the meaning is one sentence of at most %d words", e.word, sentenceWords)
		}
		if e.where == "" || e.elsewhere == "" {
			t.Errorf("%s: where, and what elsewhere?", e.word)
		}
		for _, m := range backquoted.FindAllStringSubmatch(e.where, -1) {
			checkFolder(t, "docs/glossary.md", m[1])
		}
	}
	for _, e := range glossary(t) {
		for _, u := range e.unused {
			if seen[u] && senses[u].names == "" {
				t.Errorf("%s is used and not used", u)
			}
		}
	}
}

// checkFolder asks for a package's folder; "colligo" is the root package.
func checkFolder(t *testing.T, file, dir string) {
	t.Helper()
	at := dir
	if at == "colligo" {
		at = "."
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(at))); err != nil {
		t.Errorf("%s names %s, which does not exist", file, dir)
	}
}

// TestArchitecture asks that docs/architecture.md has a row for each package in the table of arrows, and for no other.
func TestArchitecture(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, m := range backquoted.FindAllStringSubmatch(cells[1], -1) {
			checkFolder(t, "docs/architecture.md", m[1])
			seen[m[1]] = true
		}
	}
	for dir := range arrows {
		if dir == "." {
			dir = "colligo"
		}
		if !seen[dir] && !within(dir, "examples") && dir != "cuda/peer/twins" {
			t.Errorf("docs/architecture.md has no row for %s", dir)
		}
	}
}
