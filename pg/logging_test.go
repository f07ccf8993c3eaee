package pg

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDefaultLog prints nothing below warnings unless asked.
func TestDefaultLog(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var b bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})))
	l := defaultLog(DebugOff).With("a", 1).WithGroup("g")
	l.Info("quiet")
	l.Debug("quiet")
	require.Empty(t, b.String())
	l.Warn("loud", "k", 2)
	require.Contains(t, b.String(), `msg=loud a=1 g.k=2`)
	defaultLog(DebugInfo).Info("asked for")
	require.Contains(t, b.String(), "asked for")
}

// TestLogAttributes holds that every line of the log says which group and rank it is about.
func TestLogAttributes(t *testing.T) {
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	lines := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		tree, err := parser.ParseFile(fset, f.Name(), nil, 0)
		require.NoError(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && logs(call) {
				lines++
				for _, name := range []string{`"group"`, `"rank"`} {
					if !mentions(call, name) {
						t.Errorf("%v: a line of the log without %s", fset.Position(call.Pos()), name)
					}
				}
			}
			return true
		})
	}
	require.Greater(t, lines, 10)
}

// logs reports whether a call is one of a field log.
func logs(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Debug" && f.Sel.Name != "Info" && f.Sel.Name != "Warn" && f.Sel.Name != "Error" {
		return false
	}
	on, ok := f.X.(*ast.SelectorExpr)
	return ok && on.Sel.Name == "log"
}

func mentions(call *ast.CallExpr, literal string) bool {
	for _, a := range call.Args {
		if l, ok := a.(*ast.BasicLit); ok && l.Value == literal {
			return true
		}
	}
	return false
}
