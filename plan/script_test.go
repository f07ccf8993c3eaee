package plan_test

import (
	"testing"

	"github.com/colligo-go/colligo/plan/plantest"
)

func TestScripts(t *testing.T) {
	for _, name := range []string{"check", "parse"} {
		t.Run(name, func(t *testing.T) { plantest.Script(t, "testdata/"+name+".txt", nil) })
	}
}
