package house

import (
	"go/ast"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSimulatorsLimited holds that every simulated machine of a test has a limit of its own, so that a hang names itself. The function
// that assigns cudasim.New to a variable gives the variable to cudasim.Limit. Examples have no testing.TB.
func TestSimulatorsLimited(t *testing.T) {
	machines := 0
	for _, s := range sources(t) {
		if !s.test() {
			continue
		}
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || strings.HasPrefix(f.Name.Name, "Example") {
				continue
			}
			for name, lacking := range unlimited(f, s.ast.Name.Name == "cudasim") {
				machines++
				if lacking > 0 {
					t.Errorf("%s:%d: %s has a simulated machine %s without cudasim.Limit", s.name, s.line(f.Pos()), f.Name.Name, name)
				}
			}
		}
	}
	require.Greater(t, machines, 20)
}

// unlimited counts by variable the machines that a function makes, less those that it limits. Inside package cudasim the names of its
// functions have no prefix.
func unlimited(f *ast.FuncDecl, inside bool) map[string]int {
	prefix := "cudasim."
	if inside {
		prefix = ""
	}
	count := map[string]int{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if call, ok := n.Rhs[0].(*ast.CallExpr); ok && named(call.Fun) == prefix+"New" {
				count[named(n.Lhs[0])]++
			}
		case *ast.CallExpr:
			if named(n.Fun) == prefix+"Limit" && len(n.Args) == 2 {
				count[named(n.Args[1])]--
			}
		}
		return true
	})
	return count
}

// named returns the text of an identifier, also behind a package, and nothing for other expressions.
func named(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return named(e.X) + "." + e.Sel.Name
	}
	return ""
}
