package house

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme holds README's programs to those that are compiled, and its first commands to what .ci/run runs.
func TestReadme(t *testing.T) {
	files := map[string]string{}
	walk(t, func(name, text string) {
		switch name {
		case "README.md", "examples/hello/main.go", "examples/gpu/main.go", ".ci/run":
			files[name] = text
		}
	})
	programs := strings.Split(files["README.md"], "```go\n")
	require.Len(t, programs, 3)
	for i, name := range []string{"examples/hello/main.go", "examples/gpu/main.go"} {
		program, _, found := strings.Cut(programs[i+1], "```")
		require.True(t, found)
		compiled := files[name]
		require.Equal(t, compiled[strings.Index(compiled, "package main"):], program)
		_, code, _ := strings.Cut(compiled, "\nfunc main")
		require.LessOrEqual(t, strings.Count(code, "\n"), 20, "%s: lines behind the imports", name)
	}
	var commands []string
	for line := range strings.Lines(files["README.md"]) {
		if command, ok := strings.CutPrefix(line, "    "); ok && len(commands) < 2 {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	require.Equal(t, []string{"go run ./bench all_reduce -ranks 4", "go test ./... ./bench/..."}, commands)
	for _, c := range commands {
		require.Contains(t, files[".ci/run"], "\n"+c)
	}
}

// TestReadmeClaims holds README's numbers and platforms to the code and to what .ci/run compiles for.
func TestReadmeClaims(t *testing.T) {
	files := map[string]string{}
	walk(t, func(name, text string) { files[name] = text })
	readme := strings.Join(strings.Fields(files["README.md"]), " ")
	var platforms []string
	for _, claim := range []string{"Linux on amd64 and arm64", "macOS on arm64", "Windows on amd64", "FreeBSD on amd64"} {
		system, processors, _ := strings.Cut(claim, " on ")
		if system == "macOS" {
			system = "darwin"
		}
		for _, processor := range strings.Split(processors, " and ") {
			platforms = append(platforms, strings.ToLower(system)+"/"+processor)
		}
	}
	require.Contains(t, readme, "Linux on amd64 and arm64, macOS on arm64, Windows on amd64 and FreeBSD on amd64 are what each change compiles for")
	require.Contains(t, files[".ci/run"], "\n  for platform in "+strings.Join(platforms, " ")+"; do\n")
	for _, claim := range []struct{ says, file, code string }{
		{"while a job forms after 5 s", "pg/internal/bootstrap/patience.go", `5 \* time\.Second`},
		{"in an operation after 4 s", "pg/late.go", `const silence = 4 \* time\.Second`},
		{"Up to 8 GPUs of one host", "cuda/peer/internal/symheap/layout.go", `MaxRanks += 8 `},
		{"on 16 element types", "dtype.go", `iota \+ 1\n(\t[A-Z].*\n){15}\tnumDTypes`},
		{"Shared memory where all processes of a group are on one Linux host", "transport/shm/open_other.go", `//go:build !linux`},
		{"GPUs are NVIDIA's, on Linux", "cuda/nccl/load_other.go", `//go:build !linux`},
		{"NCCL carries the collectives if all ranks have it in one version", "cuda/nccl/agree.go", `unless each has the same version`},
	} {
		require.Contains(t, readme, claim.says)
		require.Regexp(t, claim.code, files[claim.file], claim.says)
	}
}
