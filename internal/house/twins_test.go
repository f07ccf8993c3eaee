package house

import (
	"go/ast"
	"regexp"
	"testing"
)

// twin finds where a comment names what c10d, NCCL or MPI have for it, or says that they have nothing.
var twin = regexp.MustCompile(`\bc10d\b|\btorch\b|\bPyTorch\b|\bNCCL\b|\bMPI\b|\bnccl[A-Z]\w+|\bMPI_\w+|\bno twin\b`)

// TestTwins asks the comment on each exported function and method of package pg for its twin, or for the words "no twin".
// Methods by which a type satisfies an interface of another package are free, as are the methods of private types.
func TestTwins(t *testing.T) {
	b := newBudget("twins")
	for _, s := range sources(t) {
		if s.dir != "pg" || s.test() {
			continue
		}
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || plainMethod[f.Name.Name] {
				continue
			}
			if name := fullName(f); ast.IsExported(name) && !twin.MatchString(f.Doc.Text()) {
				b.add("pg "+name, "%s:%d", s.name, s.line(f.Pos()))
			}
		}
	}
	b.check(t)
}

// plainMethod are methods of fmt, errors and encoding.
var plainMethod = map[string]bool{"String": true, "Error": true, "Unwrap": true, "Is": true, "As": true, "MarshalJSON": true, "UnmarshalJSON": true}
