package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	qualified = regexp.MustCompile(`^(\w+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?(?:\(.*)?$`)
	variable  = regexp.MustCompile(`\b(?:COLLIGO|TORCH_NCCL|TORCH_FR)_[A-Z_0-9]+\b`)
)

// TestNames looks up each name between backquotes, such as `pg.Init`, `Group.Shrink` and `Config.TLS`.
func TestNames(t *testing.T) {
	index, source := indexed(t)
	found := 0
	for _, d := range documents(t) {
		for _, s := range d.spans {
			m := qualified.FindStringSubmatch(s.text)
			if m == nil || !index[m[1]] {
				continue
			}
			found++
			name := m[1] + "." + m[2]
			if m[3] != "" && index[name+"."+m[3]] {
				continue
			}
			if !index[name] || m[3] != "" {
				t.Errorf("%s: there is no %s", s.at, s.text)
			}
		}
		text := d.prose
		for _, c := range d.commands {
			text += "\n" + c.text
		}
		for _, v := range variable.FindAllString(text, -1) {
			if !strings.Contains(source, v) {
				t.Errorf("%s: no Go file has the variable %s", d.name, v)
			}
		}
	}
	require.Greater(t, found, 20, "most names have been missed")
}

// indexed lists what packages export: pg, pg.Init, pg.Config.TLS. Types of pg stand there without the package, too.
// Source is the text of all Go files.
func indexed(t *testing.T) (index map[string]bool, source string) {
	t.Helper()
	index = map[string]bool{}
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && skipped(d.Name()) {
			return cmpOr(err, fs.SkipDir)
		}
		if d.IsDir() || filepath.Ext(p) != ".go" {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		all.Write(text)
		if strings.HasSuffix(p, "_test.go") || strings.Contains(filepath.ToSlash(p), "/internal/") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, text, parser.SkipObjectResolution)
		if err == nil && packages[f.Name.Name] != "" {
			export(index, f)
		}
		return err
	}))
	return index, all.String()
}

// export adds the names of one file.
func export(index map[string]bool, f *ast.File) {
	add := func(names ...string) {
		for _, of := range []string{f.Name.Name + ".", ""} {
			if of == "" && (f.Name.Name != "pg" || len(names) == 1) {
				continue
			}
			index[of+strings.Join(names, ".")] = true
			index[f.Name.Name], index[names[0]] = true, index[names[0]] || f.Name.Name == "pg" && len(names) > 1
		}
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name.Name)
			} else if of := receiver(d.Recv.List[0].Type); of != "" {
				add(of, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				exportSpec(add, spec)
			}
		}
	}
}

func exportSpec(add func(...string), spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range s.Names {
			add(id.Name)
		}
	case *ast.TypeSpec:
		add(s.Name.Name)
		var fields *ast.FieldList
		switch x := s.Type.(type) {
		case *ast.StructType:
			fields = x.Fields
		case *ast.InterfaceType:
			fields = x.Methods
		}
		if fields == nil {
			return
		}
		for _, field := range fields.List {
			for _, id := range field.Names {
				add(s.Name.Name, id.Name)
			}
		}
	}
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
