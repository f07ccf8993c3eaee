package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// root is the repository's top, seen from this package.
const root = "../.."

// document is one Markdown file.
type document struct {
	name     string // from the top, with slashes
	anchors  map[string]bool
	links    []piece
	commands []piece
	goBlocks []piece
	spans    []piece // text between backquotes
	prose    string  // all but blocks
}

// piece is a part of a document.
type piece struct {
	at   string // file and line
	text string
}

// skipped are folders whose Markdown files are no documents of the repository.
func skipped(name string) bool { return name == ".git" || name == "testdata" || name == "shared" }

// documents reads every Markdown file, those beside test data too.
func documents(t *testing.T) (all []*document) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() != "testdata" && skipped(d.Name()) {
			return cmpOr(err, fs.SkipDir)
		}
		if d.IsDir() || filepath.Ext(p) != ".md" {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		all = append(all, parse(filepath.ToSlash(name), string(text)))
		return err
	}))
	require.Greater(t, len(all), 5, "the walk has missed most documents")
	return all
}

func cmpOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

var (
	linkPattern = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	spanPattern = regexp.MustCompile("`([^`]+)`")
	headPattern = regexp.MustCompile(`^#{1,6} +(.*)$`)
)

// parse takes a document apart: blocks, indented lines, headings, and the rest, which is prose.
func parse(name, text string) *document {
	d := &document{name: name, anchors: map[string]bool{}}
	var prose strings.Builder
	lines := strings.Split(text, "\n")
	blank, indented := true, false
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		at := fmt.Sprintf("%s:%d", name, i+1)
		if language, fence := strings.CutPrefix(line, "```"); fence {
			var body []string
			for i++; i < len(lines) && !strings.HasPrefix(lines[i], "```"); i++ {
				body = append(body, lines[i])
			}
			d.block(at, strings.TrimSpace(language), body)
			prose.WriteString("\n")
			continue
		}
		command, deep := strings.CutPrefix(line, "    ")
		if indented = deep && (blank || indented); indented {
			d.shell(at, []string{command})
			prose.WriteString("\n")
			continue
		}
		blank = strings.TrimSpace(line) == ""
		if m := headPattern.FindStringSubmatch(line); m != nil {
			d.heading(m[1])
		}
		prose.WriteString(line + "\n")
	}
	d.prose = prose.String()
	d.find()
	return d
}

// find looks for links and spans in the prose, which may run over the end of a line.
func (d *document) find() {
	at := func(offset int) string { return fmt.Sprintf("%s:%d", d.name, 1+strings.Count(d.prose[:offset], "\n")) }
	for _, m := range linkPattern.FindAllStringSubmatchIndex(d.prose, -1) {
		d.links = append(d.links, piece{at(m[0]), d.prose[m[2]:m[3]]})
	}
	for _, m := range spanPattern.FindAllStringSubmatchIndex(d.prose, -1) {
		d.spans = append(d.spans, piece{at(m[0]), strings.Join(strings.Fields(d.prose[m[2]:m[3]]), " ")})
	}
}

func (d *document) block(at, language string, body []string) {
	switch language {
	case "go":
		d.goBlocks = append(d.goBlocks, piece{at, strings.Join(body, "\n") + "\n"})
	case "sh":
		d.shell(at, body)
	}
}

// shell takes commands, of which one may go on over several lines.
func (d *document) shell(at string, lines []string) {
	whole := strings.ReplaceAll(strings.Join(lines, "\n"), "\\\n", " ")
	for line := range strings.Lines(whole) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			d.commands = append(d.commands, piece{at, line})
		}
	}
}

// heading adds a heading's anchor as GitHub names it.
func (d *document) heading(text string) {
	var b strings.Builder
	for _, r := range strings.ToLower(linkPattern.ReplaceAllString(text, "$0")) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		}
	}
	name := b.String()
	for n := 1; d.anchors[name]; n++ {
		name = fmt.Sprintf("%s-%d", b.String(), n)
	}
	d.anchors[name] = true
}
