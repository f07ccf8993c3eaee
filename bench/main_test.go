package main

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
)

// failing names the variable that makes rank 1 of a test's processes fail instead of joining.
const failing = "BENCH_TEST_FAILING_RANK"

// TestMain runs the tests or, in the processes that they start, the program.
func TestMain(m *testing.M) {
	rank, child := os.LookupEnv("RANK")
	if child && rank == os.Getenv(failing) {
		fmt.Println("said before the end")
		os.Exit(7)
	}
	if child {
		main()
	}
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // starts the goroutine that package signal keeps
	signal.Reset()
	before := runtime.NumGoroutine()
	code := m.Run()
	for end := time.Now().Add(time.Minute); code == 0 && runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			fmt.Fprintf(os.Stderr, "goroutines leaked: %d before, %d after\n", before, runtime.NumGoroutine())
			code = 1
		}
	}
	os.Exit(code)
}

// outcome is what a run of the program left behind.
type outcome struct {
	code           int
	stdout, stderr string
}

// noDriver keeps tests off the machine's GPUs.
func noDriver() (*cuda.Driver, error) { return nil, cuda.ErrUnsupported }

// bench runs the program with the test's environment and more.
func bench(env []string, args ...string) outcome {
	var out, errs bytes.Buffer
	code := run(args, process{environ: append(os.Environ(), env...), stdout: &out, stderr: &errs, open: noDriver,
		setenv: func(string, string) error { return nil }})
	return outcome{code, out.String(), errs.String()}
}

func TestHelp(t *testing.T) {
	o := bench(nil, "-help")
	require.Zero(t, o.code)
	for _, text := range []string{"-ranks", "-plot", "busbw", "sendrecv"} {
		require.Contains(t, o.stdout, text)
	}
	require.NotRegexp(t, `(?m)^  -\w+ (string|value)$`, o.stdout, "a flag does not say what it takes")
}

func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		says string
		args []string
	}{
		{"no collective named", nil},
		{`unknown collective "all_reduced"`, []string{"all_reduced"}},
		{"flag provided but not defined: -size", []string{"all_reduce", "-size", "4"}},
		{`"1X" is not a size`, []string{"all_reduce", "-b", "1X"}},
		{`"9999999999Gi" is more`, []string{"all_reduce", "-e", "9999999999Gi"}},
		{"-b 4Mi is more than -e 1Ki", []string{"all_reduce", "-b", "4Mi", "-e", "1Ki"}},
		{"-f 1", []string{"all_reduce", "-f", "1"}},
		{"-device cuda: cuda: no NVIDIA driver", []string{"all_reduce", "-device", "cuda"}},
		{"-device tpu", []string{"all_reduce", "-device", "tpu"}},
		{"-transport udp", []string{"all_reduce", "-transport", "udp"}},
		{"-algo magic: there are all_reduce: ", []string{"all_reduce", "-algo", "magic"}},
		{"-ranks 0", []string{"all_reduce", "-ranks", "0"}},
		{"-r 4: the ranks are 0 to 3", []string{"broadcast", "-r", "4"}},
		{"-n 0", []string{"all_reduce", "-n", "0"}},
		{"neither auto nor a number", []string{"all_reduce", "-w", "-1"}},
		{"unknown element type", []string{"all_reduce", "-d", "float33"}},
		{"unknown reduce operation", []string{"all_reduce", "-o", "median"}},
		{"bxor of float32", []string{"all_reduce", "-o", "bxor"}},
		{"sendrecv needs two ranks", []string{"sendrecv", "-ranks", "1"}},
		{"-heap 5Mi: only GPUs", []string{"all_reduce", "-heap", "5Mi"}},
		{"-timeout 0s", []string{"all_reduce", "-timeout", "0s"}},
	} {
		t.Run(c.says, func(t *testing.T) {
			o := bench(nil, c.args...)
			require.Equal(t, 2, o.code, o.stderr)
			require.Contains(t, o.stderr, c.says)
			require.Contains(t, o.stderr, "usage: bench [flags] COLLECTIVE...\n")
			require.Empty(t, o.stdout)
		})
	}
}

// TestTooLarge refuses sizes before the system does.
func TestTooLarge(t *testing.T) {
	o, err := parse([]string{"all_reduce", "-e", "1Gi", "-ranks", "4", "-device", "cpu"})
	require.NoError(t, err)
	require.NoError(t, o.checkMemory(8<<30))
	require.NoError(t, o.checkMemory(0), "nobody knows")
	require.EqualError(t, o.checkMemory(7<<30), "-e 1Gi: 4 ranks with 2 tensors of 1 GiB each need more than the 7 GiB of this machine")
	o.joins = true
	require.NoError(t, o.checkMemory(7<<30), "the others may be on another machine")
}

func TestMisuseUnderLauncher(t *testing.T) {
	for _, c := range []struct {
		says, env string
		args      []string
	}{
		{"WORLD_SIZE is", "WORLD_SIZE=many", []string{"barrier"}},
		{"-ranks 3, but the launcher has set WORLD_SIZE=2", "WORLD_SIZE=2", []string{"barrier", "-ranks", "3"}},
		{"RANK is set", "WORLD_SIZE=2", []string{"barrier", "-transport", "inproc"}},
		{"the ranks are 0 to 1", "WORLD_SIZE=2", []string{"broadcast", "-r", "2"}},
	} {
		o := bench([]string{"RANK=0", c.env}, c.args...)
		require.Equal(t, 2, o.code)
		require.Contains(t, o.stderr, c.says)
	}
}
