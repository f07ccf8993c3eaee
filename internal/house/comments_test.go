package house

import (
	"go/ast"
	"go/doc/comment"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// sentenceWords is the most words of a sentence.
const sentenceWords = 25

// passage is one comment of a file.
type passage struct {
	file string
	dir  string
	line int
	text string // without the marks of a comment
}

// passages returns all comments of Go and of the GPU kernels, generated files and directives left out.
func passages(t *testing.T) []passage {
	var all []passage
	for _, s := range sources(t) {
		if s.generated() {
			continue
		}
		for _, c := range s.ast.Comments {
			if text := c.Text(); text != "" && !strings.HasPrefix(text, "Output:") { // the output of an example is no prose
				all = append(all, passage{s.name, s.dir, s.line(c.Pos()), text})
			}
		}
	}
	for _, k := range kernelSources(t) {
		all = append(all, k.comments...)
	}
	return all
}

// prose returns the paragraphs and list items of a comment, without code and headings.
func prose(text string) []string {
	var all []string
	var visit func(blocks []comment.Block)
	visit = func(blocks []comment.Block) {
		for _, b := range blocks {
			switch b := b.(type) {
			case *comment.Paragraph:
				all = append(all, plain(b.Text))
			case *comment.List:
				for _, item := range b.Items {
					visit(item.Content)
				}
			}
		}
	}
	var p comment.Parser
	visit(p.Parse(text).Content)
	return all
}

func plain(text []comment.Text) string {
	var s strings.Builder
	for _, x := range text {
		switch x := x.(type) {
		case comment.Plain:
			s.WriteString(string(x))
		case comment.Italic:
			s.WriteString(string(x))
		case *comment.Link:
			s.WriteString(plain(x.Text))
		case *comment.DocLink:
			s.WriteString(plain(x.Text))
		}
	}
	return s.String()
}

var (
	stop         = regexp.MustCompile(`[.!?][)"']*\s+`)
	abbreviation = regexp.MustCompile(`\b(e\.g|i\.e|etc|cf|vs|No)\.\s*$`)
)

// sentencesOf cuts prose after full stops, question and exclamation marks that a small letter does not follow.
func sentencesOf(text string) []string {
	var all []string
	from := 0
	for _, m := range stop.FindAllStringIndex(text, -1) {
		rest := []rune(text[m[1]:])
		if len(rest) == 0 || unicode.IsLower(rest[0]) || abbreviation.MatchString(text[:m[1]]) {
			continue
		}
		all = append(all, strings.TrimSpace(text[from:m[1]]))
		from = m[1]
	}
	if rest := strings.TrimSpace(text[from:]); rest != "" {
		all = append(all, rest)
	}
	return all
}

var word = regexp.MustCompile(`[\pL\pN]`)

// words counts what has a letter or a digit in it.
func words(sentence string) int {
	n := 0
	for _, f := range strings.Fields(sentence) {
		if word.MatchString(f) {
			n++
		}
	}
	return n
}

// TestSentences holds the length of sentences in comments.
func TestSentences(t *testing.T) {
	b := newBudget("sentences")
	for _, p := range passages(t) {
		for _, text := range prose(p.text) {
			for _, s := range sentencesOf(text) {
				if n := words(s); n > sentenceWords {
					b.add(p.dir, "%s:%d: %d words: %s", p.file, p.line, n, start(s))
				}
			}
		}
	}
	b.check(t)
}

// start is as much of a sentence as finds it.
func start(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "..."
	}
	return s
}

// headless finds sentences whose subject has no noun. The word "those" has its noun if that comes next.
var headless = regexp.MustCompile(`^(?:(?:Who|Whoever|Whose|What|Whatever) |Those (?:who|whose|that|which|of|in|on|at|to|by|for|from|with|without|behind|before|after|are|have|do)\b)`)

// TestRiddles finds sentences that begin with a pronoun for a noun that the reader has to find.
func TestRiddles(t *testing.T) {
	b := newBudget("riddles")
	for _, p := range passages(t) {
		for _, text := range prose(p.text) {
			for _, s := range sentencesOf(text) {
				if headless.MatchString(s) {
					b.add(p.dir, "%s:%d: %s", p.file, p.line, start(s))
				}
			}
		}
	}
	b.check(t)
}

// byAnother finds the beginning of a comment such as "failAt is fail with ...".
var byAnother = regexp.MustCompile(`^(\w+) (?:is|are) (\w+)(?:'s)?(?: (?:with|without|that|for|of|but|and|where|when|if|in|as|to|by|on)\b|,|\.$)`)

// TestNamesExplainedByNames finds comments on a declaration that only name another function of the package.
func TestNamesExplainedByNames(t *testing.T) {
	b := newBudget("explained")
	names := map[string]map[string]bool{}
	for _, s := range sources(t) {
		if names[s.dir] == nil {
			names[s.dir] = map[string]bool{}
		}
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				names[s.dir][f.Name.Name] = true
			}
		}
	}
	for _, k := range kernelSources(t) {
		if names[k.dir] == nil {
			names[k.dir] = map[string]bool{}
		}
		for _, m := range regexp.MustCompile(`\b([a-z]\w*)\(`).FindAllStringSubmatch(k.code, -1) {
			names[k.dir][m[1]] = true
		}
	}
	for _, p := range passages(t) {
		for _, text := range prose(p.text) {
			for _, s := range sentencesOf(text) {
				m := byAnother.FindStringSubmatch(s)
				if m != nil && m[1] != m[2] && names[p.dir][m[1]] && names[p.dir][m[2]] {
					b.add(p.dir, "%s:%d: %s", p.file, p.line, start(s))
				}
			}
		}
	}
	b.check(t)
}

// TestSentencesOf holds the cutting of sentences.
func TestSentencesOf(t *testing.T) {
	require.Equal(t, []string{"One.", "Two, e.g. three, ends (so).", "Is it? It"}[:2], sentencesOf("One. Two, e.g. three, ends (so). ")[:2])
	require.Equal(t, []string{"The file a.go has it.", "B"}, sentencesOf("The file a.go has it. B"))
	require.Equal(t, 3, words("a b – c"))
	require.Equal(t, []string{"text"}, prose("text\n\n\tcode here\n"))
}
