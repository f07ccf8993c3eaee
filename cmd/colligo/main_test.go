package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store/tcpstore"
)

// asProgram names the variable that turns this test's program into the one that it tests.
const asProgram = "COLLIGO_TEST_PROGRAM"

// TestMain runs the tests, or the program itself, or, as a rank that they start, a program that does what its argument says.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	rank, child := os.LookupEnv("RANK")
	if !child {
		os.Exit(m.Run())
	}
	fmt.Printf("rank %s of %s: %q\nno end", rank, os.Getenv("WORLD_SIZE"), os.Args[2:])
	fmt.Fprintln(os.Stderr, "complaint")
	if os.Args[1] == "fail" && rank == "1" {
		os.Exit(9)
	}
	os.Exit(0)
}

// outcome is what a run of the program left behind.
type outcome struct {
	code           int
	stdout, stderr string
}

// noSignals is for commands that end by themselves.
func noSignals() <-chan os.Signal { return nil }

func command(t *testing.T, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(args, system{environ: os.Environ(), stdout: &out, stderr: &errs, signals: noSignals})
	return outcome{code, out.String(), errs.String()}
}

func TestRun(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	o := command(t, "run", "-n", "2", "--", self, "well", "-n", "x y")
	require.Zero(t, o.code, o.stderr)
	lines := strings.Split(strings.TrimSuffix(o.stdout, "\n"), "\n")
	slices.Sort(lines)
	require.Equal(t, []string{"[0] no end", `[0] rank 0 of 2: ["-n" "x y"]`, "[1] no end", `[1] rank 1 of 2: ["-n" "x y"]`}, lines)
	require.Contains(t, o.stderr, "[1] complaint\n")
}

func TestRunFails(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	o := command(t, "run", "-n", "3", self, "fail")
	require.Equal(t, 9, o.code)
	require.Contains(t, o.stderr, "colligo run: rank 1: exit status 9\n")
	o = command(t, "run", t.TempDir()+"/missing")
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stderr, "start rank 0")
}

func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		says string
		args []string
	}{
		{"usage:", nil},
		{`unknown command "walk"`, []string{"walk"}},
		{"no program named", []string{"run", "-n", "2"}},
		{"no program named", []string{"run", "-n", "2", "--"}},
		{"-n 0: at least one rank", []string{"run", "-n", "0", "true"}},
		{"-settle 0s", []string{"run", "-settle", "0", "true"}},
		{"-grace 0s", []string{"run", "-grace", "0", "true"}},
		{"flag provided but not defined: -ranks", []string{"run", "-ranks", "2", "true"}},
		{"flag provided but not defined: -port", []string{"store", "-port", "2"}},
		{`unexpected argument "now"`, []string{"store", "now"}},
		{`unexpected argument "now"`, []string{"version", "now"}},
	} {
		o := command(t, c.args...)
		require.Equal(t, 2, o.code, c.says)
		require.Contains(t, o.stderr, c.says)
		require.Contains(t, o.stderr, "usage:\n", "what makes no sense is answered with what does")
		require.Empty(t, o.stdout)
	}
}

func TestHelp(t *testing.T) {
	for says, args := range map[string][]string{
		"  colligo trace [flags] FOLDER...":  {"help", "help"},
		"  colligo run -n RANKS [flags]":     {"run", "-help"},
		"  colligo store -listen HOST:PORT":  {"store", "-h"},
		"  colligo version ":                 {"help", "version"},
		"  colligo trace [flags] FOLDER... ": {"trace", "-help"},
		"  colligo settings ":                {"settings", "-h"},
	} {
		o := command(t, args...)
		require.Zero(t, o.code)
		require.Contains(t, o.stdout, "usage:\n")
		require.Contains(t, o.stdout, says)
		require.NotRegexp(t, `(?m)^  -\w+ (string|value)$`, o.stdout, "a flag does not say what it takes")
		require.Empty(t, o.stderr)
	}
}

func TestStorePortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	o := command(t, "store", "-listen", l.Addr().String())
	require.Equal(t, 1, o.code)
	require.Contains(t, o.stderr, l.Addr().String())
}

func TestStore(t *testing.T) {
	signals := make(chan os.Signal, 1)
	out := &announcement{line: make(chan string, 1)}
	code := make(chan int)
	go func() {
		code <- run([]string{"store", "-listen", "127.0.0.1:0"}, system{stdout: out, stderr: os.Stderr,
			signals: func() <-chan os.Signal { return signals }})
	}()
	addr := strings.TrimSpace(strings.TrimPrefix(<-out.line, "listening at "))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := tcpstore.Dial(ctx, addr, tcpstore.ClientOptions{})
	require.NoError(t, err)
	require.NoError(t, s.Set(ctx, "key", []byte("value")))
	require.NoError(t, s.Close())
	signals <- syscall.SIGTERM
	require.Zero(t, <-code)
}

// announcement takes the first thing written.
type announcement struct {
	once sync.Once
	line chan string
}

func (a *announcement) Write(p []byte) (int, error) {
	a.once.Do(func() { a.line <- string(p) })
	return len(p), nil
}
