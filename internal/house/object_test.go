package house

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// objects bounds the types in which everything could meet: their fields and their methods, tests left out. The cycle bounds the
// files of their package that need one another.
var objects = []struct {
	dir, name              string
	fields, methods, cycle int
}{
	{"pg", "Group", 15, 130, 12},
	{"cuda/peer", "backend", 20, 60, 35},
}

// TestObjects keeps state that belongs together in types of its own.
func TestObjects(t *testing.T) {
	for _, o := range objects {
		fields, methods := -1, 0
		for _, s := range sources(t) {
			if s.dir != o.dir || s.test() {
				continue
			}
			ast.Inspect(s.ast, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					if body, ok := n.Type.(*ast.StructType); ok && n.Name.Name == o.name {
						fields = body.Fields.NumFields()
					}
				case *ast.FuncDecl:
					if receiver(n) == o.name {
						methods++
					}
				}
				return true
			})
		}
		require.GreaterOrEqual(t, fields, 0, "%s has no %s", o.dir, o.name)
		cycle := largestCycle(t, o.dir)
		t.Logf("%s.%s: %d fields, %d methods; largest cycle: %d files", o.dir, o.name, fields, methods, len(cycle))
		if fields > o.fields || methods > o.methods {
			t.Errorf("%s.%s has %d fields and %d methods, the limits are %d and %d", o.dir, o.name, fields, methods, o.fields, o.methods)
		}
		if len(cycle) > o.cycle {
			t.Errorf("%d files of %s need one another, the limit is %d: %s", len(cycle), o.dir, o.cycle, strings.Join(cycle, " "))
		}
	}
}

// receiver returns the name of the type whose method a function is, "" for a function without receiver.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	id, _ := t.(*ast.Ident)
	if id == nil {
		return ""
	}
	return id.Name
}

// largestCycle returns the most files of a package of which each uses a declaration of another and so, over others, of itself.
func largestCycle(t *testing.T, dir string) []string {
	set := token.NewFileSet()
	var files []*ast.File
	for _, s := range sources(t) {
		if s.dir == dir && !s.test() {
			files = append(files, s.again(t, set))
		}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	c := types.Config{Importer: noImports{}, Error: func(error) {}}
	p, _ := c.Check(dir, set, files, info) // its errors are about other packages, which are left alone
	uses := map[string]map[string]bool{}
	for id, o := range info.Uses {
		_, method := o.(*types.Func)
		if o.Pkg() != p || o.Parent() != p.Scope() && !method {
			continue
		}
		from, to := set.Position(id.Pos()).Filename, set.Position(o.Pos()).Filename
		if uses[from] == nil {
			uses[from] = map[string]bool{}
		}
		uses[from][to] = true
	}
	var largest []string
	for file := range uses {
		if all := together(uses, file); len(all) > len(largest) {
			largest = all
		}
	}
	return largest
}

// together returns the files that a file reaches and that reach it.
func together(uses map[string]map[string]bool, file string) []string {
	var all []string
	for other := range reached(uses, file) {
		if reached(uses, other)[file] {
			all = append(all, other)
		}
	}
	slices.Sort(all)
	return all
}

func reached(uses map[string]map[string]bool, from string) map[string]bool {
	seen, todo := map[string]bool{}, []string{from}
	for ; len(todo) > 0; todo = todo[1:] {
		for to := range uses[todo[0]] {
			if !seen[to] {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	return seen
}
