package house

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// arrows lists for each package what it may import of ours; "" is the root package. Tests may import more. An arrow that no
// file uses fails the test.
var arrows = map[string][]string{
	".":                         {},
	"bench":                     {"*"},
	"bench/versions":            {},
	"cmd/colligo":               {"internal/launch", "pg", "pg/flight", "pg/trace", "store/tcpstore"},
	"cmd/colligo-doctor":        {"*"},
	"cuda":                      {"", "cuda/internal/ccall"},
	"cuda/internal/ccall":       {},
	"cuda/cudasim":              {"cuda", "internal/callers"},
	"cuda/cudasim/model":        {"", "cuda/cudasim", "kernels", "kernels/ptx"},
	"cuda/internal/devmem":      {"", "cuda", "cuda/internal/streamorder", "pg/backend"},
	"cuda/internal/streamorder": {"", "cuda", "cuda/internal/tenants", "pg/backend", "plan"},
	"cuda/internal/tenants":     {"cuda"},
	"cuda/internal/hostid":      {},
	"cuda/nccl": {"", "cuda", "cuda/internal/ccall", "cuda/internal/devmem", "cuda/internal/hostid", "cuda/internal/streamorder", "cuda/internal/tenants", "kernels", "kernels/ptx", "pg/backend",
		"plan", "ring", "tree"},
	"cuda/nccl/ncclsim":   {"", "cuda", "cuda/cudasim", "cuda/nccl", "kernels"},
	"cuda/internal/apart": {"", "cuda", "cuda/internal/streamorder", "cuda/nccl", "cuda/staged", "pg/backend", "plan"},
	"cuda/peer": {"", "cuda", "cuda/internal/apart", "cuda/internal/devmem", "cuda/internal/hostid", "cuda/internal/streamorder", "cuda/internal/tenants", "cuda/peer/internal/symheap", "cuda/staged", "kernels",
		"kernels/ptx", "plan", "ring", "pg/backend"},
	"cuda/peer/internal/symheap": {"", "cuda", "cuda/internal/streamorder", "kernels/ptx", "pg/backend"},
	"cuda/staged":                {"", "cuda", "cuda/internal/devmem", "cuda/internal/streamorder", "kernels", "plan", "pg/backend"},
	"examples/digits":            {"", "pg"},
	"examples/hello":             {"", "pg"},
	"examples/torch/gloo":        {"", "pg"},
	"examples/gpu":               {"", "gpu", "pg"},
	"examples/secure":            {"", "pg"},
	"examples/metrics":           {"", "pg", "pg/debug"},
	"examples/stuck":             {"", "pg"},
	"examples/subgroups":         {"", "pg"},
	"examples/pipeline":          {"", "pg"},
	"examples/shrink":            {"", "pg"},
	"examples/etcd":              {"", "pg", "store"},
	"examples/hook":              {"", "pg", "pg/ddp"},
	"examples/gonum":             {"", "pg"},
	"examples/average":           {"", "pg"},
	"examples/torch":             {"", "pg", "pg/flight"},
	"examples/torch/nccl":        {"", "cuda", "cuda/nccl", "pg", "pg/object", "pg/pickle"},
	"examples/torch/torchrun":    {"", "pg"},
	"examples/torch/weights":     {"", "cuda", "cuda/nccl", "examples/torch/weights/safetensors", "pg"},
	"gloo":                       {"plan"},
	"gpu":                        {"", "cuda", "cuda/nccl", "cuda/peer", "pg", "plan"},
	"internal/callers":           {},
	"internal/prefetch":          {},
	"internal/docs":              {},
	"internal/engine":            {"", "plan"},
	"internal/failures":          {},
	"internal/house":             {},
	"internal/freeport":          {},
	"internal/gputest":           {},
	"internal/journal":           {},
	"internal/launch":            {"store/tcpstore"},
	"internal/testload":          {},
	"kernels":                    {""},
	"kernels/_gen":               {},
	"kernels/ptx":                {""},
	"pg": {"", "plan", "transport", "transport/sim", "store", "pg/backend", "pg/flight", "pg/internal/bootstrap",
		"pg/internal/control", "pg/internal/diagnose", "pg/internal/gloo", "pg/internal/host", "pg/internal/op", "pg/internal/oplog",
		"pg/internal/ranklist", "pg/internal/torch", "pg/internal/watchdog", "pg/tuning", "transport/gloo"},
	"pg/backend":                 {"", "plan"},
	"pg/ddp":                     {"", "pg", "kernels", "pg/sparse"},
	"pg/debug":                   {"pg", "pg/flight"},
	"pg/flight":                  {"", "internal/callers", "internal/prefetch", "pg/pickle"},
	"pg/internal/bootstrap":      {"", "store", "store/tcpstore", "store/filestore", "transport", "transport/shm", "transport/tcp", "pg/internal/ranklist"},
	"pg/internal/control":        {"", "pg/internal/diagnose", "pg/internal/ranklist", "transport"},
	"pg/internal/diagnose":       {"", "plan", "pg/internal/ranklist"},
	"pg/internal/gloo":           {"", "gloo", "internal/engine", "kernels", "pg/backend", "pg/internal/diagnose", "pg/internal/host", "pg/internal/op", "plan", "store/tcpstore", "transport", "transport/gloo"},
	"pg/internal/host":           {"", "plan", "pg/internal/diagnose", "pg/internal/op", "pg/backend", "pg/tuning", "internal/engine", "transport"},
	"pg/internal/op":             {"", "plan", "kernels", "transport"},
	"pg/internal/oplog":          {"", "plan", "pg/flight", "pg/internal/op"},
	"pg/internal/ranklist":       {},
	"pg/internal/torch":          {"pg/backend", "store"},
	"pg/internal/watchdog":       {"", "internal/prefetch", "plan", "pg/backend", "pg/flight", "pg/internal/op", "pg/internal/oplog"},
	"pg/object":                  {"", "pg", "pg/backend", "pg/internal/ranklist", "pg/pickle"},
	"pg/parity":                  {},
	"pg/pgotel":                  {"", "pg"},
	"pg/pgtest":                  {"", "pg", "store", "transport", "transport/sim"},
	"pg/pickle":                  {},
	"pg/sparse":                  {"", "pg", "pg/backend", "kernels"},
	"pg/trace":                   {"pg/flight"},
	"pg/tuning":                  {"", "plan", "ring", "tree"},
	"plan":                       {},
	"plan/plantest":              {"plan"},
	"ring":                       {"plan"},
	"store":                      {},
	"store/filestore":            {"store"},
	"store/storetest":            {"store"},
	"store/tcpstore":             {"store"},
	"transport":                  {},
	"transport/gloo":             {"transport", "transport/internal/peermem", "transport/internal/stream"},
	"transport/internal/peermem": {},
	"transport/internal/stream":  {"transport"},
	"transport/shm":              {"transport", "transport/internal/peermem"},
	"transport/sim":              {"transport"},
	"transport/tcp":              {"transport", "transport/internal/stream"},
	"transport/transporttest":    {"transport"},
	"tree":                       {"plan"},

	"examples/torch/weights/safetensors": {},
}

// generators is a module whose packages share one line of the table.
const generators = "kernels/_gen"

// apart are the modules beside the library's: their go.mod says what they need, not a table here.
var apart = []string{generators, "bench", "pg/pgotel", "examples/gonum"}

// pure packages compute: they import none of waiting, and no package below these either.
var pure = []string{".", "gloo", "plan", "ring", "tree", "internal/engine", "pg/internal/diagnose"}

var waiting = []string{"net", "os", "time", "sync", "context"}

// outside lists the packages that may import a foreign module. Tests may import testify anywhere.
var outside = map[string][]string{
	"github.com/ebitengine/purego":  {"cuda", "cuda/internal/ccall", "cuda/nccl"},
	"golang.org/x/sys":              {"cuda", "cuda/cudasim", "cuda/nccl", "kernels", "store/filestore", "store/tcpstore", "transport/shm", "transport/tcp", "transport/internal/peermem", "transport/internal/stream"},
	"github.com/klauspost/compress": {"kernels/ptx", "transport/tcp"},
	"github.com/stretchr/testify":   {"store/storetest"},
}

// forbidden are the arrows that never exist, whatever the table above says: from a package and those below it to another and
// those below that. Tests may: they
// come from outside.
var forbidden = []struct{ from, to, why string }{
	{"pg", "cuda", "groups know devices by their backends alone"},
	{"cuda", "pg", "backends know groups by pg/backend alone"},
	{"kernels", "cuda", "kernels are bytes and arguments; cuda launches them"},
	{"transport", "pg", "links know no groups"},
	{"store", "pg", "stores know no groups"},
}

// seam is the package of pg that backends may import.
const seam = "pg/backend"

// standing are forbidden arrows that older code has. An entry whose arrow is gone fails the test.
var standing = map[string]bool{}

func TestForbiddenArrows(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		for _, path := range s.imports(t) {
			to, ours := own(path)
			if !ours || to == seam || s.test() {
				continue
			}
			for _, f := range forbidden {
				if !within(s.dir, f.from) || !within(to, f.to) {
					continue
				}
				if used[s.dir+" "+to] = true; !standing[s.dir+" "+to] {
					t.Errorf("%s imports %s: %s", s.name, path, f.why)
				}
			}
		}
	}
	for arrow := range standing {
		if !used[arrow] {
			t.Errorf("nothing needs the exception %q any more", arrow)
		}
	}
}

// TestArrowsAreUsed holds the table of arrows to what files import.
func TestArrowsAreUsed(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		used[s.dir] = true
		for _, path := range s.imports(t) {
			if to, ours := own(path); ours {
				used[s.dir+" "+to] = true
			}
		}
	}
	for from, all := range arrows {
		if !used[from] && from != generators {
			t.Errorf("there is no package %s", from)
		}
		for _, to := range all {
			if to != "*" && !used[from+" "+to] {
				t.Errorf("%s never imports %q: delete the arrow", from, to)
			}
		}
	}
}

// own cuts the module's path off an import; "" is the root package.
func own(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

func TestArrows(t *testing.T) {
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		allowed, known := arrows[s.dir]
		if within(s.dir, generators) {
			allowed, known = arrows[generators], true
		}
		if !known {
			t.Errorf("%s: package %s has no line in the table of arrows", s.name, s.dir)
			continue
		}
		for _, path := range s.imports(t) {
			to, ours := own(path)
			if ours && (to == "bench" || !slices.Contains(allowed, to) && !slices.Contains(allowed, "*")) {
				t.Errorf("%s imports %s", s.name, path)
			}
			if slices.Contains(pure, s.dir) && slices.ContainsFunc(waiting, func(w string) bool { return within(path, w) }) {
				t.Errorf("%s imports %s, but package %s only computes", s.name, path, s.dir)
			}
		}
	}
}

// within reports whether a path is a package or lies below it.
func within(path, parent string) bool { return path == parent || strings.HasPrefix(path, parent+"/") }

// TestNothingImportsBench includes tests.
func TestNothingImportsBench(t *testing.T) {
	for _, s := range sources(t) {
		for _, path := range s.imports(t) {
			if to, ours := own(path); ours && within(to, "bench") {
				t.Errorf("%s imports %s", s.name, path)
			}
		}
	}
}

func TestForeignModules(t *testing.T) {
	for _, s := range sources(t) {
		if slices.ContainsFunc(apart, func(m string) bool { return within(s.dir, m) }) {
			continue
		}
		for _, path := range s.imports(t) {
			first, _, _ := strings.Cut(path, "/")
			if _, ours := own(path); ours || !strings.Contains(first, ".") {
				continue
			}
			if s.test() && within(path, "github.com/stretchr/testify") {
				continue
			}
			if !foreign(path, s) {
				t.Errorf("%s imports %s", s.name, path)
			}
		}
	}
}

func foreign(path string, s *source) bool {
	for mod, users := range outside {
		if within(path, mod) {
			return s.test() && mod == "golang.org/x/sys" || slices.Contains(users, s.dir)
		}
	}
	return false
}

// TestGroupsLinkNoForeignCalls follows the imports from pg, and from what a CPU-only program uses besides.
func TestGroupsLinkNoForeignCalls(t *testing.T) {
	below := map[string][]string{}
	for _, s := range sources(t) {
		if !s.test() {
			below[s.dir] = append(below[s.dir], s.imports(t)...)
		}
	}
	seen := map[string]bool{}
	var visit func(dir string)
	visit = func(dir string) {
		for _, path := range below[dir] {
			require.False(t, path == "C" || within(path, "github.com/ebitengine/purego"), "%s imports %s", dir, path)
			if to, ours := own(path); ours && !seen[to] {
				seen[to] = true
				if to == "" {
					to = "."
				}
				visit(to)
			}
		}
	}
	visit("pg")
	require.Greater(t, len(seen), 8)
	require.NotContains(t, seen, "cuda")
}
