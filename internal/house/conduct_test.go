package house

import (
	"errors"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"
)

// readers are the files outside tests that may read the environment.
var readers = map[string]string{
	"cuda/nccl/load_linux.go":     "where the library lies, and the Python environment that may have it",
	"cuda/open.go":                "what the driver makes of a variable of its own",
	"pg/init.go":                  "the variables of launchers and those of Settings",
	"bench/main.go":               "the environment of the processes that it starts",
	"bench/versions/build.go":     "the environment of the processes that it starts",
	"cmd/colligo/main.go":         "the environment of the processes that it starts",
	"internal/gputest/gputest.go": "whether tests open real GPUs, and the process that it starts in its place",
	"examples/torch/gloo/main.go": "the environment of the processes that it starts, and whether it is one of them",

	"examples/torch/torchrun/main.go": "which attempt of the launcher this is, to print it",
	"examples/torch/weights/main.go":  "the environment of the processes that it starts, and whether it is one of them",
}

// enders are the files outside package main and tests that may end the process.
var enders = map[string]string{
	"store/storetest/main.go":     "runs in the place of a package's TestMain",
	"internal/gputest/gputest.go": "runs in the place of a package's TestMain",
	"pg/failurehandler.go":        "the watchdog's modes that end the process, which somebody has to ask for",
}

// used expects that every exception is made use of, so that none is kept for a file or a variable that needs it no more.
func used(t *testing.T, exceptions map[string]string, seen map[string]bool) {
	t.Helper()
	for name := range exceptions {
		if !seen[name] {
			t.Errorf("%s needs no exception", name)
		}
	}
}

// TestEnvironmentAndExit looks for calls of package os by their usual names.
func TestEnvironmentAndExit(t *testing.T) {
	read, ended := map[string]bool{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			switch name := x.Name + "." + sel.Sel.Name; name {
			case "os.Getenv", "os.LookupEnv", "os.Environ":
				if read[s.name] = true; readers[s.name] == "" {
					t.Errorf("%s:%d: %s", s.name, s.line(n.Pos()), name)
				}
			case "os.Exit", "log.Fatal", "log.Fatalf", "log.Fatalln":
				if ended[s.name] = true; s.ast.Name.Name != "main" && enders[s.name] == "" {
					t.Errorf("%s:%d: %s", s.name, s.line(n.Pos()), name)
				}
			}
			return true
		})
	}
	used(t, readers, read)
	used(t, enders, ended)
}

// registries are the package variables that may change, with the reason.
var registries = map[string]string{
	"pg/backend registry": "backends register themselves when a program imports them, as database drivers do",
}

// noImports makes the type checker leave other packages alone: the names of the package itself are enough.
type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("left alone") }

// TestPackageVariablesAreConstant finds assignments to package variables. Names that other packages own, and twin files
// that declare a name twice, are errors that the checker reports and this test does not need.
func TestPackageVariablesAreConstant(t *testing.T) {
	packages, changed := map[string][]*source{}, map[string]bool{}
	for _, s := range sources(t) {
		if !s.test() {
			packages[s.dir] = append(packages[s.dir], s)
		}
	}
	for dir, files := range packages {
		set := token.NewFileSet()
		var parsed []*ast.File
		for _, s := range files {
			parsed = append(parsed, s.again(t, set))
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
		c := types.Config{Importer: noImports{}, Error: func(error) {}, FakeImportC: true}
		pkg, _ := c.Check(path.Join(module, dir), set, parsed, info)
		for _, f := range parsed {
			for _, id := range assigned(f) {
				v, ok := info.Uses[id].(*types.Var)
				if !ok || v.Parent() != pkg.Scope() {
					continue
				}
				if changed[dir+" "+id.Name] = true; registries[dir+" "+id.Name] == "" {
					t.Errorf("%v: package variable %s is assigned to", set.Position(id.Pos()), id.Name)
				}
			}
		}
	}
	used(t, registries, changed)
}

// assigned returns the variables at the root of everything that a file assigns to.
func assigned(f *ast.File) []*ast.Ident {
	var all []*ast.Ident
	add := func(e ast.Expr) {
		if id := base(e); id != nil {
			all = append(all, id)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					add(e)
				}
			}
		case *ast.IncDecStmt:
			add(n.X)
		}
		return true
	})
	return all
}

// base returns the variable that x, x.f, x[i], *x and (x) begin with.
func base(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// direct lists the modules that the library may require itself.
var direct = []string{"github.com/ebitengine/purego", "golang.org/x/sys", "github.com/klauspost/compress", "github.com/stretchr/testify"}

func TestDependencies(t *testing.T) {
	walk(t, func(name, text string) {
		if name != "go.mod" {
			return
		}
		for line := range strings.Lines(text) {
			fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
			if len(fields) != 2 || !strings.HasPrefix(fields[1], "v") {
				continue // not a requirement, or an indirect one
			}
			if !slices.Contains(direct, fields[0]) {
				t.Errorf("go.mod requires %s", fields[0])
			}
		}
		if strings.Contains(text, "\nreplace ") {
			t.Error("go.mod replaces a module, which nobody who imports it would see")
		}
	})
}
