package docs

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestLinks follows every link that stays within the repository, to the heading that it names. Of other links it checks the form.
func TestLinks(t *testing.T) {
	byName := map[string]*document{}
	all := documents(t)
	for _, d := range all {
		byName[d.name] = d
	}
	followed := 0
	for _, d := range all {
		for _, l := range d.links {
			if strings.Contains(l.text, ":") {
				if u, err := url.Parse(l.text); err != nil || u.Scheme != "https" || !strings.Contains(u.Host, ".") {
					t.Errorf("%s: %s is no address of a page by https", l.at, l.text)
				}
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

// TestExamplesAreLinked wants every example in the table of all, and those with ranks of PyTorch in the documents of their readers.
func TestExamplesAreLinked(t *testing.T) {
	links := map[string]map[string]bool{} // by document, the folders of examples that it links to
	for _, d := range documents(t) {
		links[d.name] = map[string]bool{}
		for _, l := range d.links {
			to := path.Join(path.Dir(d.name), l.text)
			for ; strings.HasPrefix(to, "examples/"); to = path.Dir(to) {
				links[d.name][to] = true
			}
		}
	}
	found := 0
	for _, pattern := range []string{"examples/*/*.go", "examples/torch/*/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			name, err := filepath.Rel(root, filepath.Dir(f))
			if err != nil {
				t.Fatal(err)
			}
			readers := []string{"docs/getting-started.md"}
			switch name = filepath.ToSlash(name); name {
			case "examples/torch/gloo":
				readers = append(readers, "README.md", "docs/gloo.md")
			case "examples/torch/nccl":
				readers = append(readers, "README.md", "docs/nccl.md")
			case "examples/torch/torchrun", "examples/torch/weights":
				readers = append(readers, "README.md", "docs/gloo.md", "docs/nccl.md")
			case "examples/hello", "examples/gpu":
				readers = append(readers, "README.md")
			}
			for _, reader := range readers {
				if found++; !links[reader][name] {
					t.Errorf("%s does not link to %s", reader, name)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d examples found: the pattern has missed most", found)
	}
}
