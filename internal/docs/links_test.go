package docs

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestLinks follows every link that stays within the repository.
func TestLinks(t *testing.T) {
	byName := map[string]*document{}
	all := documents(t)
	for _, d := range all {
		byName[d.name] = d
	}
	followed := 0
	for _, d := range all {
		for _, l := range d.links {
			if strings.Contains(l.text, "://") || strings.HasPrefix(l.text, "mailto:") {
				continue
			}
			followed++
			target, fragment, _ := strings.Cut(l.text, "#")
			name := d.name
			if target != "" {
				name = path.Join(path.Dir(d.name), target)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name))); err != nil {
				t.Errorf("%s: link to %s: %v", l.at, l.text, err)
				continue
			}
			if to := byName[name]; fragment != "" && (to == nil || !to.anchors[fragment]) {
				t.Errorf("%s: link to %s: there is no such heading", l.at, l.text)
			}
		}
	}
	if followed < 10 {
		t.Errorf("only %d links found: the pattern has missed most", followed)
	}
}
