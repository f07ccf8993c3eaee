package main

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/launch"
)

// TestMain runs the tests, or, as a rank that they start, the program itself.
func TestMain(m *testing.M) {
	if _, child := os.LookupEnv("RANK"); child {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestProcesses loses one of three processes.
func TestProcesses(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	outputs := make([]launch.Tail, 3)
	job := launch.Job{Program: self, Ranks: len(outputs), Env: os.Environ(), Output: func(rank int) (stdout, stderr io.Writer) {
		outputs[rank].Limit = 1 << 16
		return &outputs[rank], &outputs[rank]
	}}
	require.NoError(t, job.Run(t.Context()), "%s", outputs[0].String())
	for rank := range 2 {
		requireGoesOn(t, rank, outputs[rank].String())
	}
}

// requireGoesOn looks for both groups' steps.
func requireGoesOn(t *testing.T, rank int, out string) {
	t.Helper()
	name := fmt.Sprintf("rank %d", rank)
	require.Contains(t, out, name+" of 3: step 1 sums 3\n")
	require.NotContains(t, out, "of 3: step 2")
	require.Contains(t, out, name+" of 2: step 2 sums 2\n")
	require.Contains(t, out, name+" of 2: step 5 sums 2\n")
}
