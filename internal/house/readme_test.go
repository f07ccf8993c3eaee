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
