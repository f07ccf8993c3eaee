package tree

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/colligo-go/colligo/plan/plantest"
)

// TestScripts compares the plans on record in testdata, one file for each planner. Run with -rewrite to record anew.
func TestScripts(t *testing.T) {
	words := regexp.MustCompile(`[A-Z][a-z]*`)
	for _, p := range planners {
		name := strings.ToLower(strings.Join(words.FindAllString(p.name, -1), "_"))
		t.Run(p.name, func(t *testing.T) {
			plantest.Script(t, filepath.Join("testdata", name+".txt"), p.plan)
		})
	}
}
