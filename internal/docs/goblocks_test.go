package docs

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is the path of the library.
const module = "github.com/colligo-go/colligo"

// packages are those that a block may name without importing them.
var packages = map[string]string{
	"colligo": module, "pg": module + "/pg", "ddp": module + "/pg/ddp", "debug": module + "/pg/debug", "flight": module + "/pg/flight",
	"object": module + "/pg/object", "pgtest": module + "/pg/pgtest", "sparse": module + "/pg/sparse", "cuda": module + "/cuda",
	"gpu": module + "/gpu", "peer": module + "/cuda/peer", "nccl": module + "/cuda/nccl", "store": module + "/store", "tcpstore": module + "/store/tcpstore",
	"filestore": module + "/store/filestore", "storetest": module + "/store/storetest", "backend": module + "/pg/backend",
	"trace": module + "/pg/trace", "tuning": module + "/pg/tuning", "pickle": module + "/pg/pickle", "pgotel": module + "/pg/pgotel", "otel": "go.opentelemetry.io/otel", "plan": module + "/plan",
	"context": "context", "errors": "errors", "expvar": "expvar", "fmt": "fmt", "http": "net/http", "log": "log", "os": "os",
	"slog": "log/slog", "testing": "testing", "time": "time", "tls": "crypto/tls", "x509": "crypto/x509",
}

// declared is what a fragment may use as if the program around it had it.
var declared = map[string]string{
	"ctx": "context.Context", "g": "*pg.Group", "err": "error", "x": "[]float32", "t": "colligo.Tensor",
	"step": "func(context.Context, *pg.Group) error", "rank": "int", "size": "int",
	"in": "colligo.Tensor", "out": "colligo.Tensor", "device": "*cuda.Device", "stream": "cuda.Stream", "thread": "cuda.Thread", "result": "[]float32", "tlsConfig": "*tls.Config",
}

// TestGoBlocks compiles all Go blocks by one command, each as a package of its own that exists in an overlay alone.
func TestGoBlocks(t *testing.T) {
	t.Parallel()
	top, err := filepath.Abs(root)
	require.NoError(t, err)
	dir := t.TempDir()
	overlay := map[string]string{}
	args := []string{"build", "-overlay", filepath.Join(dir, "overlay.json")}
	for _, d := range documents(t) {
		for _, b := range d.goBlocks {
			text, err := compilable(b)
			require.NoError(t, err, b.at)
			name := fmt.Sprintf("block%d", len(overlay))
			file := filepath.Join(dir, name+".go")
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			overlay[filepath.Join(top, "internal", "docs", name, "block.go")] = file
			args = append(args, "./internal/docs/"+name)
		}
	}
	require.Greater(t, len(overlay), 3)
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600))
	cmd := exec.Command("go", args...)
	cmd.Dir = top
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// compilable makes a file of a block. A //line comment has the compiler name the document.
func compilable(b piece) (string, error) {
	name, line, _ := strings.Cut(b.at, ":")
	at, err := strconv.Atoi(line)
	if err != nil {
		return "", err
	}
	mark := fmt.Sprintf("//line %s:%d\n", name, at+1)
	if strings.HasPrefix(b.text, "package ") {
		rest := strings.SplitAfterN(b.text, "\n", 2)
		return "package block\n" + fmt.Sprintf("//line %s:%d\n", name, at+2) + rest[1], nil
	}
	imports, rest := cutImports(b.text)
	set := token.NewFileSet()
	if f, err := parser.ParseFile(set, "", "package block\n"+rest, parser.SkipObjectResolution); err == nil {
		return "package block\n" + importsOf(f, imports, nil) + mark + rest, nil
	}
	f, err := parser.ParseFile(set, "", "package block\nfunc _() error {\n"+rest+"}\n", parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	body := f.Decls[0].(*ast.FuncDecl).Body
	var parameters, types []string
	for _, name := range free(body) {
		parameters = append(parameters, name+" "+declared[name])
		kind, _, _ := strings.Cut(strings.TrimLeft(declared[name], "*[]"), ".")
		types = append(types, kind)
		if strings.HasPrefix(kind, "func(") {
			types[len(types)-1] = "context"
			types = append(types, "pg")
		}
	}
	used := ""
	for _, name := range defined(body) {
		used += "_ = " + name + "\n"
	}
	return "package block\n" + importsOf(f, imports, types) + "func _(" + strings.Join(parameters, ", ") + ") error {\n" + mark + rest + used + "return nil\n}\n", nil
}

// cutImports takes the lines off a fragment that import packages.
func cutImports(text string) (imports []string, rest string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "import ") {
			imports = append(imports, strings.TrimSpace(line))
			line = "\n"
		}
		rest += line
	}
	return imports, rest
}

// importsOf imports what a file selects from, and the packages of its parameters' types.
func importsOf(f *ast.File, lines, besides []string) string {
	need := slices.Clone(besides)
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				need = append(need, x.Name)
			}
		}
		return true
	})
	for _, name := range need {
		if path := packages[name]; path != "" && declared[name] == "" {
			lines = append(lines, fmt.Sprintf("import %s %q", name, path))
		}
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n") + "\n"
}

// free lists the names of declared that a fragment uses. The fragment may declare one itself, which then hides the parameter.
func free(body *ast.BlockStmt) (names []string) {
	ast.Inspect(body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && declared[id.Name] != "" && !slices.Contains(names, id.Name) {
			names = append(names, id.Name)
		}
		return true
	})
	own := defined(body)
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(own, name) && !usedFirst(body, name) })
}

// usedFirst reports whether a statement uses a name before one that defines it.
func usedFirst(body *ast.BlockStmt, name string) bool {
	for _, s := range body.List {
		if slices.Contains(definedBy(s), name) {
			return false
		}
		found := false
		ast.Inspect(s, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			found = found || ok && id.Name == name
			return true
		})
		if found {
			return true
		}
	}
	return false
}

// defined lists the variables that the fragment's own statements define.
func defined(body *ast.BlockStmt) (names []string) {
	for _, s := range body.List {
		for _, name := range definedBy(s) {
			if name != "_" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func definedBy(s ast.Stmt) (names []string) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		for _, e := range s.Lhs {
			if id, ok := e.(*ast.Ident); ok && s.Tok == token.DEFINE {
				names = append(names, id.Name)
			}
		}
	case *ast.DeclStmt:
		for _, spec := range s.Decl.(*ast.GenDecl).Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				for _, id := range v.Names {
					names = append(names, id.Name)
				}
			}
		}
	}
	return names
}
