package parity

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write ../PARITY.md anew")

// suite is a class of tests.
type suite struct {
	class string
	tests []string
}

// places are the directories whose tests count, and what a row calls them.
var places = []string{"pg/parity", "pg", "pg/ddp", "pg/flight", "pg/trace", "cuda/peer"}

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
	"test_grad_layout_2devicemodule":                             "strides of gradients on GPUs: tensors on a device are contiguous here; TestGradLayout1DeviceModule1ReplicaPerProcess has strides, TestNCCLBackend2GPUModule two devices",
}

// goTests returns the names of the test functions in a directory, as plain gives them.
func goTests(t *testing.T, dir string) map[string]string {
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), "*_test.go"))
	require.NoError(t, err)
	found := map[string]string{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				found[plain(fn.Name.Name)] = fn.Name.Name
			}
		}
	}
	return found
}

// plain is what a test's name has in common with its twin's: test_abort_pg and TestAbortPG are both testabortpg.
func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// TestParity writes the rows, holds them against ../PARITY.md, and fails if one has neither a test nor a reason.
func TestParity(t *testing.T) {
	tests := map[string]map[string]string{}
	for _, p := range places {
		tests[p] = goTests(t, p)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Parity with PyTorch's tests\n\n")
	fmt.Fprintf(&b, "Written by `go test ./pg/parity -run TestParity -update` from the names of the tests. Not to be edited.\n\n")
	fmt.Fprintf(&b, "| PyTorch's test | here |\n|---|---|\n")
	for _, s := range suites {
		for _, name := range s.tests {
			here := row(tests, name)
			if here == "" {
				t.Errorf("%s.%s has neither a test nor a reason", s.class, name)
			}
			fmt.Fprintf(&b, "| %s.%s | %s |\n", s.class, name, here)
		}
	}
	for name := range reasons {
		require.True(t, known(name), "a reason is given for %s, which is no test of the suite", name)
	}
	path := filepath.Join("..", "PARITY.md")
	if *update {
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(written), b.String(), "run go test ./pg/parity -run TestParity -update")
}

// row says where a test's twin is, or why there is none; empty if neither is known.
func row(tests map[string]map[string]string, name string) string {
	for _, p := range places {
		if found, ok := tests[p][plain(name)]; ok {
			return fmt.Sprintf("`%s` in %s", found, p)
		}
	}
	return reasons[name]
}

func known(name string) bool {
	for _, s := range suites {
		for _, n := range s.tests {
			if n == name {
				return true
			}
		}
	}
	return false
}
