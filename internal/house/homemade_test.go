package house

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// gpu are the folders in which the words of GPU protocols are looked for.
var gpu = []string{"cuda/peer", "cuda/staged", "cuda/cudasim/model", "kernels/_gen/cuda", "kernels/ptx"}

// groups are those in which the words of groups are looked for.
var groups = []string{"pg/.", "pg/internal", "pg/backend"}

// A sense narrows where a word of the column "not used" is looked for, because it has an ordinary meaning, too. A word
// without a sense must stand in no name and in no comment.
type sense struct {
	why     string
	in      []string // folders, with what is below them unless they end in "/."; nil: all
	names   string   // what names must not say, as allowed has them; empty: the word itself
	allowed string   // a regular expression for names and comments that may have it, in lower case, singular, with spaces
	phrases string   // what comments must not say; empty: the word itself; "-": comments are free
}

var senses = map[string]sense{
	"world":       {why: "launchers and c10d say world size", in: slices.Concat(groups, gpu), allowed: `world[ _-]size|_world|\bof the world\b`},
	"aside":       {why: "English sets things aside", phrases: `\basides\b|\ban? aside\b|/aside`},
	"place":       {why: "an ordinary noun; in plan a position in a buffer", in: slices.Concat(groups, gpu), phrases: `\b(at|by|from) place\b|\bplaces? [a-z]\b|\bplace in the order\b|\bin the order of places\b`, allowed: `in place|placed|other place`},
	"turn":        {why: "an ordinary noun: ranks take turns", in: gpu, phrases: `\b(its|the|a|one) turn\b`},
	"line":        {why: "16 bytes are a line, and text and caches have lines", in: gpu, allowed: `cache line|pipeline|cacheline`, phrases: `\bby lines\b|\bline memory\b|\bblank lines?\b|\blines (go|come|lie)\b|\ba line is\b|\btake[sn]? (the )?lines?\b`, names: `line (warp|strip|place|block|memory|chain|grid|span|byte|root|last|arg|famil|entr)|(broadcast|all reduce|by|over|blank|copied) line|new line|open line`},
	"sign":        {why: "numbers have signs", in: gpu, phrases: `\bsigns? (flag|number|to|the|it)\b|\bsigned (to|that|by|number)\b|\blast sign\b`},
	"told":        {why: "an ordinary verb", phrases: `-`, in: []string{"kernels/_gen/cuda", "cuda/cudasim/model"}},
	"heard":       {why: "an ordinary verb", phrases: `\bha[sd] heard\b`, in: []string{"kernels/_gen/cuda", "cuda/cudasim/model"}},
	"row":         {why: "tables have rows", in: gpu},
	"packet":      {why: "networks have packets", in: append([]string{"cuda/cudasim"}, gpu...)},
	"letter":      {why: "text has letters", in: gpu},
	"ready":       {why: "an ordinary adjective", in: gpu, phrases: `\bthe word ready\b|\bset ready\b|\bwait for ready\b`, names: `ready (to|at)`},
	"swap":        {why: "atomics compare and swap", in: gpu, allowed: `and swap`},
	"blank":       {why: "Go has a blank identifier", in: append([]string{"cuda/cudasim"}, gpu...)},
	"mark":        {why: "registered tensors have marks; so has the simulator's clock", in: []string{"cuda/peer"}, allowed: `direct marks?|marks? of the direct`, names: `open mark|mark weight`, phrases: `\bby marks\b|\bmarks: events\b|\ba mark\b`},
	"follow":      {why: "an ordinary verb", in: gpu, phrases: `\bby follow\b|\bthe follower\b`, names: `(move|reduce|broadcast|exchange|root|scatter) follow|follow (engine|arg|byte|command|head|famil|entr)`},
	"copies":      {why: "an ordinary plural", in: []string{"cuda/peer"}, phrases: `-`, names: `(reduce|exchange) copie`},
	"way":         {why: "an ordinary noun", in: append([]string{"bench"}, gpu...), phrases: `\bthe ways\b|\b(same|a|the) way,|\bway of (an )?operations?\b|\bways that\b`, allowed: `one way|both way`},
	"choice line": {why: "a type and its comment", phrases: `\bchoice lines?\b|\bline of the table (of choices|by which)\b`},
	"twins":       {why: "clever functions have dumb twins, and c10d has twins of ours", in: []string{"cuda"}, phrases: `-`},
	"family":      {why: "addresses and code come in families", in: []string{"cuda/peer"}, allowed: `(follow|reduce|ring|module|code) ?famil(y|ies)|famil(y|ies) of (code|kernels|entry)`, names: `(join|leave) famil|^familie$`},
	"drive":       {why: "an ordinary verb", in: groups, phrases: `\bwho(ever)? drives\b|\bdrives a group\b|\bthe driving\b`},
	"round":       {why: "numbers are rounded, and algorithms have rounds", in: groups, phrases: `\bidle rounds?\b|\bround over the links\b`},
	"where":       {why: "an ordinary word", in: groups, phrases: `-`},
	"blame":       {why: "sentences say who is to blame; the dumps' field is read by others", in: groups, phrases: `-`},
	"prints":      {why: "an ordinary verb", in: groups, phrases: `-`},
	"meeting":     {why: "ranks meet in the store", in: groups, phrases: `\bits meeting\b|\bmeetings\b`},
	"feel":        {why: "an ordinary verb", phrases: `-`},
	"strip":       {why: "programs strip text", in: gpu},
	"spoil":       {why: "tests spoil frames and results", in: gpu},
	"card":        {why: "machines have graphics cards", in: groups},
	"relay":       {why: "an ordinary verb", phrases: `\b(a|the) relay\b|\brelays\b`},
}

// parts cuts a name or a comment into words in lower case, singular: camel case, underscores and punctuation are borders.
func parts(s string) []string {
	var all []string
	var part []rune
	flush := func() {
		if len(part) > 0 {
			all = append(all, singular(strings.ToLower(string(part))))
		}
		part = part[:0]
	}
	rs := []rune(s)
	for i, r := range rs {
		switch {
		case !unicode.IsLetter(r):
			flush()
			continue
		case unicode.IsUpper(r) && (i > 0 && unicode.IsLower(rs[i-1]) || i+1 < len(rs) && unicode.IsLower(rs[i+1])):
			flush()
		}
		part = append(part, r)
	}
	flush()
	return all
}

func singular(w string) string {
	if len(w) < 4 || strings.HasSuffix(w, "ss") {
		return w
	}
	return strings.TrimSuffix(w, "s")
}

// has reports whether a word, or several, stand in parts one after the other.
func has(of, sought []string) bool {
	for i := range of {
		if i+len(sought) <= len(of) && slices.Equal(of[i:i+len(sought)], sought) {
			return true
		}
	}
	return false
}

// rule is a word of the column in the form in which it is looked for.
type rule struct {
	word    string
	sought  []string
	in      []string
	names   *regexp.Regexp // nil: names are searched for the word itself
	allowed *regexp.Regexp
	phrases *regexp.Regexp // nil: comments are free
	whole   bool           // comments are searched for the word itself
}

func rules(t *testing.T) []rule {
	var all []rule
	for _, e := range glossary(t) {
		for _, u := range e.unused {
			key := u
			if _, ok := senses[key]; !ok {
				if _, ok := senses[singular(u)]; ok {
					key = singular(u)
				}
			}
			if slices.ContainsFunc(all, func(r rule) bool { return r.word == key }) {
				continue
			}
			s := senses[key]
			r := rule{word: key, sought: parts(key), in: s.in, whole: s.phrases == ""}
			if s.allowed != "" {
				r.allowed = regexp.MustCompile(`(?i)` + s.allowed)
			}
			if s.names != "" {
				r.names = regexp.MustCompile(s.names)
			}
			if s.phrases != "" && s.phrases != "-" {
				r.phrases = regexp.MustCompile(`(?i)` + s.phrases)
			}
			all = append(all, r)
		}
	}
	for key := range senses {
		require.True(t, slices.ContainsFunc(all, func(r rule) bool { return r.word == key }), "%s is no word of the glossary's column", key)
	}
	return all
}

// looksAt reports whether a word is looked for in a folder.
func (r *rule) looksAt(dir string) bool {
	return r.in == nil || slices.ContainsFunc(r.in, func(d string) bool { return within(dir, d) || dir+"/." == d })
}

// inName reports whether a name has the word.
func (r *rule) inName(name string) bool {
	if !strings.Contains(strings.ToLower(name), r.sought[0]) {
		return false
	}
	p := parts(name)
	if r.names != nil {
		return r.names.MatchString(strings.Join(p, " "))
	}
	return has(p, r.sought) && (r.allowed == nil || !r.allowed.MatchString(strings.Join(p, " ")))
}

// hint is a part of every comment that has the word or a phrase with it.
func (r *rule) hint() string { return strings.TrimSuffix(r.sought[len(r.sought)-1], "e") }

var spaces = regexp.MustCompile(`\s+`)

// inComment returns how often a comment has the word, or a phrase of its.
func (r *rule) inComment(text string) int {
	if r.phrases != nil {
		return len(r.phrases.FindAllString(text, -1))
	}
	if !r.whole {
		return 0
	}
	if r.allowed != nil {
		text = r.allowed.ReplaceAllString(text, "")
	}
	n := 0
	p := parts(text)
	for i := range p {
		if has(p[i:min(i+len(r.sought), len(p))], r.sought) {
			n++
		}
	}
	return n
}

// TestHomemadeWords holds names and comments to the glossary.
func TestHomemadeWords(t *testing.T) {
	b := newBudget("words")
	all := rules(t)
	look := func(dir, name, at string) {
		for i := range all {
			if r := &all[i]; r.looksAt(dir) && r.inName(name) {
				b.add(dir+" "+r.word+" names", "%s: %s", at, name)
			}
		}
	}
	for _, s := range sources(t) {
		if s.generated() {
			continue
		}
		look(s.dir, strings.TrimSuffix(path.Base(s.name), ".go"), s.name)
		for _, id := range declared(s.ast) {
			look(s.dir, id.Name, s.name)
		}
	}
	for _, k := range kernelSources(t) {
		look(k.dir, strings.TrimSuffix(path.Base(k.name), path.Ext(k.name)), k.name)
		for _, name := range distinct(identifier.FindAllString(k.code, -1)) {
			look(k.dir, name, k.name)
		}
	}
	for _, p := range passages(t) {
		text := spaces.ReplaceAllString(p.text, " ")
		lower := strings.ToLower(text)
		for i := range all {
			r := &all[i]
			if !strings.Contains(lower, r.hint()) || !r.looksAt(p.dir) {
				continue
			}
			for range r.inComment(text) {
				b.add(p.dir+" "+r.word+" comments", "%s:%d", p.file, p.line)
			}
		}
	}
	b.check(t)
}

var identifier = regexp.MustCompile(`\b[A-Za-z_]\w*`)

func distinct(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}

// declared returns the names that a file gives: what it takes from elsewhere has its name there.
func declared(f *ast.File) []*ast.Ident {
	all := []*ast.Ident{f.Name}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			all = append(all, n.Name)
		case *ast.TypeSpec:
			all = append(all, n.Name)
		case *ast.ValueSpec:
			all = append(all, n.Names...)
		case *ast.Field:
			all = append(all, n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				all = append(all, idents(n.Lhs...)...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				all = append(all, idents(n.Key, n.Value)...)
			}
		case *ast.LabeledStmt:
			all = append(all, n.Label)
		}
		return true
	})
	return all
}

func idents(all ...ast.Expr) (ids []*ast.Ident) {
	for _, e := range all {
		if id, ok := e.(*ast.Ident); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// TestParts holds the cutting of names.
func TestParts(t *testing.T) {
	require.Equal(t, []string{"all", "reduce", "row", "two", "shot"}, parts("all_reduce_rowsTwoShot"))
	require.Equal(t, []string{"ptx", "target", "go"}, parts("PTXTarget.go"))
	require.True(t, has(parts("leastStopWords"), parts("stop word")))
	require.False(t, has(parts("pipeline"), parts("line")))
	r := rule{sought: parts("seat"), whole: true}
	require.Equal(t, 2, r.inComment("a seat, and openSeats"))
}
