package flight

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Path is where the dump of a rank lies: the prefix, which may name a folder, and the rank of the default group.
func Path(prefix string, rank int) string { return prefix + strconv.Itoa(rank) }

// WriteFile writes the dump as pickle to its rank's file and returns the path. It makes the folder if there is none, and replaces an
// older dump only when the new one is complete.
func (d *Dump) WriteFile(prefix string, rank int) (string, error) {
	path := Path(prefix, rank)
	dir, name := filepath.Split(path)
	if err := os.MkdirAll(filepath.Clean(dir), 0o755); err != nil {
		return "", fmt.Errorf("write flight dump: %w", err)
	}
	// The analyzers take every file that begins with the prefix for a dump.
	f, err := os.CreateTemp(filepath.Clean(dir), "."+name+".")
	if err != nil {
		return "", fmt.Errorf("write flight dump: %w", err)
	}
	err = d.WritePickle(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", fmt.Errorf("write flight dump of rank %d: %w", rank, err)
	}
	return path, nil
}

// ReadFile reads the dump in a file.
func ReadFile(path string) (*Dump, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read flight dump: %w", err)
	}
	defer f.Close()
	d, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// Files returns the dumps in a folder, by rank: the files whose name is the prefix and a number. An empty prefix stands for
// the one that the files of the folder have in common, but for hidden ones. If they have several, it is an error.
func Files(dir, prefix string) (map[int]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list flight dumps: %w", err)
	}
	found, prefixes := map[int]string{}, map[string]bool{}
	for _, e := range entries {
		stem, begun := prefix, false
		if prefix == "" {
			stem = strings.TrimRight(e.Name(), "0123456789")
			begun = strings.HasPrefix(stem, ".") // a file that WriteFile did not come to name
		}
		digits, ok := strings.CutPrefix(e.Name(), stem)
		rank, err := strconv.ParseInt(digits, 10, 32)
		if begun || e.IsDir() || !ok || err != nil || strconv.Itoa(int(rank)) != digits {
			continue
		}
		prefixes[stem] = true
		found[int(rank)] = filepath.Join(dir, e.Name())
	}
	if len(prefixes) > 1 {
		return nil, fmt.Errorf("%s holds dumps with the prefixes %s; choose one", dir, strings.Join(sorted(prefixes), ", "))
	}
	return found, nil
}
