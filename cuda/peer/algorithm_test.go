package peer

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/plan"
)

// TestAlgorithmsStandApart holds that an algorithm's name stands in its own file and in tuning.go alone.
func TestAlgorithmsStandApart(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, a := range algorithms {
		require.False(t, names[a.source], a.source)
		require.Equal(t, a.source, a.name.GoString())
		names[a.source] = true
	}
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, f := range files {
		name := f.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == "tuning.go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, id := range bareNames(file) {
			if names[id] {
				require.Equal(t, strings.ToLower(id)+".go", name, "%s stands in %s", id, name)
			}
		}
	}
}

// bareNames returns the identifiers of a file that select nothing and are no keys of a literal.
func bareNames(file *ast.File) (all []string) {
	other := map[*ast.Ident]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			other[n.Sel] = true
		case *ast.KeyValueExpr:
			if id, ok := n.Key.(*ast.Ident); ok {
				other[id] = true
			}
		case *ast.Ident:
			if !other[n] {
				all = append(all, n.Name)
			}
		}
		return true
	})
	return all
}

// TestFallbacks holds that what takes an algorithm's place exists, and that all collectives have a last rule.
func TestFallbacks(t *testing.T) {
	t.Parallel()
	for name, others := range fallbacks {
		require.NotNil(t, algorithmNamed(name), name)
		for _, other := range others {
			require.NotNil(t, algorithmNamed(other), other)
			require.NotEqual(t, name, other)
		}
	}
	for c := plan.AllReduce; c <= plan.Scatter; c++ {
		require.NotNil(t, lastRule(c), c)
	}
	require.Nil(t, lastRule(plan.Send))
}
