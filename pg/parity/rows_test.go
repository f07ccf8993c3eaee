package parity

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write ../PARITY.md anew, after all tests have run")

// suite is a class of tests.
type suite struct {
	class string
	tests []string
}

// document is what is written from the rows.
const document = "../PARITY.md"

const (
	noDeviceIDs = "device_ids says where a module computes; a ddp.Reducer finds gradients where they are, so there is nothing to give: the training itself is in TestNCCLBackendSingleDeviceModuleDeviceIDsNone and TestNCCLBackend2GPUModule"
	autograd    = "needs autograd: "
)

// reasons say why a test has no twin here.
var reasons = map[string]string{
	"test_multigpu": "is empty",
	"test_nccl_backend_multi_device_ids_not_allowed":             noDeviceIDs,
	"test_nccl_backend_single_device_module_empty_device_ids":    noDeviceIDs,
	"test_nccl_backend_multi_device_module_device_ids_None":      noDeviceIDs,
	"test_nccl_backend_1gpu_module_device_ids_integer_list":      noDeviceIDs,
	"test_nccl_backend_1gpu_module_device_ids_torch_device_list": noDeviceIDs,
	"test_arbitrary_forward_return_value_grad_is_view":           autograd + "finds unused parameters by walking the graph behind what forward returned",
	"test_ddp_packed_sequence":                                   autograd + "compares the gradients of an LSTM over packed sequences",
	"test_nested_comm_tensor_wrapping":                           "traces wrapped tensors with the Python compiler",
}

// row is a test of PyTorch, and its twin.
type row struct {
	class, name string
	test        string   // the Go test, empty if there is none
	media       []string // on which it runs
}

// goTests returns the names of the test functions in a directory, as plain gives them.
func goTests(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				found[plain(fn.Name.Name)] = fn.Name.Name
			}
		}
	}
	return found, nil
}

// plain is what a test's name has in common with its twin's: test_abort_pg and TestAbortPG are both testabortpg.
func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// rowsOf returns all rows, with the media of each test.
func rowsOf(tests map[string]string, on map[string][]string) (all []row) {
	for _, s := range suites {
		for _, name := range s.tests {
			r := row{class: s.class, name: name, test: tests[plain(name)]}
			r.media = on[r.test]
			all = append(all, r)
		}
	}
	return all
}

// render writes the document.
func render(tests map[string]string, on map[string][]string) []byte {
	var b bytes.Buffer
	fmt.Fprint(&b, `# Parity with PyTorch's tests

Written by `+"`go test ./pg/parity -update`"+` from the names of the tests, and from the media on which they have run. Not to be edited.

The tests are in pg/parity. Media: sim, CPU ranks over the simulated network; shm, CPU ranks over shared memory; cudasim, simulated
GPUs; nccl, simulated GPUs by a simulated NCCL; gpu, real GPUs, where COLLIGO_GPU is set; processes, a process for each rank. A test
that runs on fewer of the first five than all says why, for each that is missing. The last column says where a test asserts less than
PyTorch's or something else; it is empty where both assert the same.

`)
	all := rowsOf(tests, on)
	counts := map[string]int{}
	for _, r := range all {
		counts[strings.Join(r.media, ", ")]++
	}
	fmt.Fprintf(&b, "| rows | media |\n|---|---|\n")
	kinds := make([]string, 0, len(counts))
	for k := range counts {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(x, y string) int {
		return counts[y] - counts[x] + 1000*strings.Compare(x, y)*btoi(counts[x] == counts[y])
	})
	for _, k := range kinds {
		name := k
		if k == "" {
			name = "none: no twin"
		}
		fmt.Fprintf(&b, "| %d | %s |\n", counts[k], name)
	}
	fmt.Fprintf(&b, "\n| PyTorch's test | here | media | why not more | differs |\n|---|---|---|---|---|\n")
	for _, r := range all {
		here := "`" + r.test + "`"
		if r.test == "" {
			here = reasons[r.name]
		}
		fmt.Fprintf(&b, "| %s.%s | %s | %s | %s | %s |\n", r.class, r.name, here, strings.Join(r.media, ", "), fewer[r.test], differs[r.test])
	}
	return b.Bytes()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// mediaIn returns the media that the document names, by test.
func mediaIn(written []byte) map[string][]string {
	on := map[string][]string{}
	for line := range strings.Lines(string(written)) {
		cells := strings.Split(line, " | ")
		if len(cells) < 5 || !strings.HasPrefix(cells[1], "`") || strings.TrimSpace(cells[2]) == "" {
			continue
		}
		on[strings.Trim(cells[1], "`")] = strings.Split(strings.TrimSpace(cells[2]), ", ")
	}
	return on
}

// wrongReasons is what is wrong with the reasons why a test runs on no more media. Each medium that is missing has one.
func wrongReasons(on []string, why lacks) (all []string) {
	for _, m := range ranked {
		switch runs := slices.Contains(on, m); {
		case !runs && why[m] == "":
			all = append(all, "nothing says why not on "+m)
		case runs && why[m] != "":
			all = append(all, "strike the reason why not on "+m)
		}
	}
	for m := range why {
		if !slices.Contains(ranked, m) {
			all = append(all, m+" needs no reason")
		}
	}
	return all
}

// TestWrongReasons plants reasons that are missing, left over, and out of place.
func TestWrongReasons(t *testing.T) {
	require.Empty(t, wrongReasons(ranked, nil))
	require.Empty(t, wrongReasons([]string{onSim, onShm}, without("why", onCudasim, onNCCL, onGPU)))
	require.Equal(t, []string{"nothing says why not on nccl"}, wrongReasons([]string{onCudasim, onGPU}, without("why", onSim, onShm)))
	require.Equal(t, []string{"strike the reason why not on shm"}, wrongReasons(ranked[1:], without("why", onSim, onShm)))
	require.Equal(t, []string{"processes needs no reason"}, wrongReasons(ranked, without("why", inProcesses)))
	require.Equal(t, "sim, gpu: one; shm: other", without("one", onSim, onGPU).and("other", onShm).String())
}

// TestParity fails if a row has neither a test nor a reason, or if it runs on fewer media than it could. It holds the rows against the
// document, whose media TestMain holds against the tests.
func TestParity(t *testing.T) {
	tests, err := goTests(".")
	require.NoError(t, err)
	written, err := os.ReadFile(document)
	require.NoError(t, err)
	on := mediaIn(written)
	if !*update {
		require.Equal(t, string(written), string(render(tests, on)), "run go test ./pg/parity -update")
	}
	seen := map[string]bool{}
	for _, r := range rowsOf(tests, on) {
		seen[r.name], seen[r.test] = true, true
		if (r.test == "") != (reasons[r.name] != "") {
			t.Errorf("%s.%s has the test %q and the reason %q: it must have one of them", r.class, r.name, r.test, reasons[r.name])
		}
		if r.test == "" || *update {
			continue
		}
		for _, problem := range wrongReasons(r.media, fewer[r.test]) {
			t.Errorf("%s runs on %v: %s", r.test, r.media, problem)
		}
	}
	named := slices.Concat(slices.Collect(maps.Keys(reasons)), slices.Collect(maps.Keys(fewer)), slices.Collect(maps.Keys(differs)))
	for _, name := range named {
		require.True(t, seen[name], "%s is named, and is in no row", name)
	}
}
