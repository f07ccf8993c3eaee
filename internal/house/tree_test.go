package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is the path of the library.
const module = "github.com/colligo-go/colligo"

// root is the repository's top, seen from this package.
const root = "../.."

// source is one Go file.
type source struct {
	name string // from the top, with slashes
	dir  string // its package's folder from the top, "." for the root package
	text string
	ast  *ast.File
	set  *token.FileSet
}

func (s *source) test() bool { return strings.HasSuffix(s.name, "_test.go") }

// generated reports whether the first line is the standard marker.
func (s *source) generated() bool {
	first, _, _ := strings.Cut(s.text, "\n")
	return strings.HasPrefix(first, "// Code generated ") && strings.HasSuffix(first, " DO NOT EDIT.")
}

// line returns where a position is.
func (s *source) line(p token.Pos) int { return s.set.Position(p).Line }

// again parses the file into another set.
func (s *source) again(t *testing.T, set *token.FileSet) *ast.File {
	f, err := parser.ParseFile(set, s.name, s.text, parser.SkipObjectResolution)
	require.NoError(t, err)
	return f
}

// imports returns the paths that a file imports.
func (s *source) imports(t *testing.T) []string {
	var all []string
	for _, i := range s.ast.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		require.NoError(t, err)
		all = append(all, p)
	}
	return all
}

// file is one file of the repository.
type file struct{ name, text string }

// tree reads the repository once.
var tree = sync.OnceValues(func() (all []file, err error) {
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() && (name == ".git" || path.Base(name) == "testdata" || name == "shared") {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(p)
		all = append(all, file{name, string(text)})
		return err
	})
	return all, err
})

// walk calls f for every file of the repository that belongs to it.
func walk(t *testing.T, f func(name, text string)) {
	t.Helper()
	all, err := tree()
	require.NoError(t, err)
	for _, x := range all {
		f(x.name, x.text)
	}
}

// parsed is all Go files. Nothing changes them.
var parsed = sync.OnceValues(func() (all []*source, err error) {
	files, err := tree()
	for _, x := range files {
		if err != nil || !strings.HasSuffix(x.name, ".go") {
			continue
		}
		s := &source{name: x.name, dir: path.Dir(x.name), text: x.text, set: token.NewFileSet()}
		s.ast, err = parser.ParseFile(s.set, x.name, x.text, parser.ParseComments|parser.SkipObjectResolution)
		all = append(all, s)
	}
	return all, err
})

// sources returns all Go files, parsed.
func sources(t *testing.T) []*source {
	t.Helper()
	all, err := parsed()
	require.NoError(t, err)
	require.Greater(t, len(all), 100, "the walk has missed most of the tree")
	return all
}
