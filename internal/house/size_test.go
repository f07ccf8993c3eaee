package house

import (
	"go/ast"
	"strings"
	"testing"
)

// The budget.
const (
	fileLines     = 500
	functionLines = 60
	nesting       = 3
)

// longer names the files and functions that may be longer or deeper, with the reason. Generated files are free.
var longer = map[string]string{}

func TestFileLength(t *testing.T) {
	for _, s := range sources(t) {
		if n := strings.Count(s.text, "\n"); n > fileLines && !s.generated() && longer[s.name] == "" {
			t.Errorf("%s has %d lines, the limit is %d", s.name, n, fileLines)
		}
	}
}

// TestFunctions leaves out test files, where loops over tables stand in one another.
func TestFunctions(t *testing.T) {
	for _, s := range sources(t) {
		if s.generated() || s.test() {
			continue
		}
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Body != nil && longer[s.name+" "+f.Name.Name] == "" {
				checkFunction(t, s, f)
			}
		}
	}
}

func checkFunction(t *testing.T, s *source, f *ast.FuncDecl) {
	if n := s.line(f.End()) - s.line(f.Pos()) + 1; n > functionLines {
		t.Errorf("%s: %s has %d lines, the limit is %d", s.name, f.Name.Name, n, functionLines)
	}
	for _, body := range bodies(f.Body) {
		if n := depth(body); n > nesting {
			t.Errorf("%s:%d: %s nests %d levels, the limit is %d", s.name, s.line(body.Pos()), f.Name.Name, n, nesting)
		}
	}
}

// bodies returns a body and those of the function literals in it, which count as functions of their own.
func bodies(b *ast.BlockStmt) []*ast.BlockStmt {
	all := []*ast.BlockStmt{b}
	ast.Inspect(b, func(n ast.Node) bool {
		if l, ok := n.(*ast.FuncLit); ok {
			all = append(all, l.Body)
		}
		return true
	})
	return all
}

// depth counts how many of if, for, switch and select stand in one another. An else if is no deeper than its if.
func depth(n ast.Node) int {
	deepest := 0
	inner := func(parts ...ast.Node) {
		for _, p := range parts {
			deepest = max(deepest, depth(p))
		}
	}
	own := 0
	ast.Inspect(n, func(m ast.Node) bool {
		switch m := m.(type) {
		case *ast.FuncLit:
			return false
		case *ast.IfStmt:
			own = 1
			inner(m.Body)
			for e := m.Else; e != nil; {
				chained, ok := e.(*ast.IfStmt)
				if !ok {
					inner(e)
					break
				}
				inner(chained.Body)
				e = chained.Else
			}
			return false
		case *ast.ForStmt:
			own = 1
			inner(m.Body)
			return false
		case *ast.RangeStmt:
			own = 1
			inner(m.Body)
			return false
		case *ast.SwitchStmt:
			own = 1
			inner(m.Body)
			return false
		case *ast.TypeSwitchStmt:
			own = 1
			inner(m.Body)
			return false
		case *ast.SelectStmt:
			own = 1
			inner(m.Body)
			return false
		}
		return true
	})
	return own + deepest
}
