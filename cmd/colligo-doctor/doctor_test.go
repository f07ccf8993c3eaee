package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// noDriver keeps tests off the machine's GPUs.
func noDriver() (*cuda.Driver, error) { return nil, cuda.ErrUnsupported }

func TestMisuse(t *testing.T) {
	for says, args := range map[string][]string{
		`colligo doctor: unexpected argument "now"`:            {"now"},
		"colligo doctor: -mib 0: from 1":                       {"-mib", "0"},
		"colligo doctor: flag provided but not defined: -deep": {"-deep"},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(args, &out, &errs, noDriver))
		require.Contains(t, errs.String(), says)
		require.Contains(t, errs.String(), "usage:\n  colligo doctor [flags] ")
		require.Contains(t, errs.String(), "\n  -mib MiB\n")
		require.Empty(t, out.String())
	}
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"-help"}, &out, &errs, noDriver))
	require.Contains(t, out.String(), "  colligo doctor [flags]")
	require.Contains(t, out.String(), "-nccl")
	require.NotContains(t, out.String(), taskFlag, "what the doctor asks of itself is none of the user's business")
	require.Empty(t, errs.String())
}

func TestDoctorOfACPU(t *testing.T) {
	var out bytes.Buffer
	e := &examiner{out: &out, exists: func(string) bool { return false }}
	require.Zero(t, e.examine(noDriver), out.String())
	require.Contains(t, out.String(), "driver    none, and no NVIDIA device in this system: collectives run on the CPU\n")
	require.Contains(t, out.String(), "\n          all_reduce  ")
	require.Regexp(t, `\n {10}all_to_all {6}tcp ranks 0-8 spare-cores over 2 MiB +rotation, lanes 2, chunks of 512 KiB\n`, out.String())
	require.NotContains(t, out.String(), "\ngpu ")
	require.True(t, strings.HasSuffix(out.String(), "\nverdict   nothing is missing\n"))
	require.NotContains(t, out.String(), "\t")
}

func TestDoctorMissesTheDriver(t *testing.T) {
	var out bytes.Buffer
	e := &examiner{out: &out, exists: func(path string) bool { return path == "/dev/nvidia0" }}
	require.Equal(t, 1, e.examine(noDriver))
	table := findings(t, out.String())
	require.Contains(t, table["a working NVIDIA driver, for there is /dev/nvidia0"], "install the NVIDIA driver")
	out.Reset()
	e = &examiner{out: &out, exists: func(string) bool { return false }}
	require.Equal(t, 1, e.examine(func() (*cuda.Driver, error) { return nil, errors.New("driver too old") }))
	require.Contains(t, out.String(), "driver    driver too old\n")
}

// examined runs the doctor on a simulated machine. The other process of its checks is one of the simulation; file
// descriptors do not get there.
func examined(t *testing.T, c cudasim.Config, change func(*examiner)) (code int, out string) {
	t.Helper()
	sim := cudasim.New(c)
	cudasim.Limit(t, sim)
	var b bytes.Buffer
	e := &examiner{out: &b, bytes: 2 << 20, exists: exists,
		library: func() (string, string, error) { return "/usr/lib/libnccl.so.2", "2.28.9", nil },
		another: func(task string, f *os.File) error {
			if f != nil {
				return errors.New("no descriptor")
			}
			p := sim.Process()
			return answer(func() (*cuda.Driver, error) { return p.Driver(), nil }, task)
		}}
	if change != nil {
		change(e)
	}
	code = e.examine(func() (*cuda.Driver, error) { return sim.Driver(), nil })
	cudasim.Check(t, sim)
	return code, b.String()
}

func TestDoctorOfGPUs(t *testing.T) {
	code, out := examined(t, cudasim.Config{Devices: 3}, nil)
	require.Zero(t, code, out)
	for _, text := range []string{"\ndevice 2  Simulated GPU  ", "compute capability 9.0", "links     GB/s of copies of 2 MiB, one edge at a time\n          from",
		"ipc       cuIpcGetMemHandle between processes: works\n", "nccl      2.28.9, /usr/lib/libnccl.so.2\n",
		"gpu       all 3 devices reach one another's memory", "verdict   nothing is missing"} {
		require.Contains(t, out, text)
	}
	require.Regexp(t, `\n          from  +to 0  +to 1  +to 2\n          0 +[0-9.]+ +[0-9.]+ +[0-9.]+\n          1 +[0-9.]+ +[0-9.]+ +[0-9.]+\n          2 +[0-9.]+ +[0-9.]+ +[0-9.]+\n`, out)
	require.Regexp(t, `\n          all_reduce +≤16 KiB +ll `, out)
}

func TestDoctorFindsFaults(t *testing.T) {
	code, out := examined(t, cudasim.Config{Devices: 3, CanAccess: func(a, b int) bool { return a != 0 || b != 2 }},
		func(e *examiner) {
			e.library = func() (string, string, error) { return "", "", errors.New("no library") }
			e.another = func(string, *os.File) error { return errors.New("forbidden") }
		})
	require.Equal(t, 1, code)
	for _, text := range []string{" no P2P\n", "ipc       cuIpcGetMemHandle between processes: forbidden\n",
		"gpu       not all devices reach one another (0 to 2)", "\nverdict   3 missing\n"} {
		require.Contains(t, out, text)
	}
	table := findings(t, out)
	require.Len(t, table, 3)
	require.Contains(t, table["P2P access from device 0 to 2"], "ACS")
	require.Contains(t, table["IPC handles of device memory: ranks on GPUs have to share one process"], "--ipc host")
	require.Contains(t, table["NCCL, which carries collectives of GPUs that do not reach each other, and which bench -compare nccl needs"], "libnccl.so.2")
}

// findings reads the table at the end: what to do, by what is missing. The second column begins where its heading does.
func findings(t *testing.T, out string) map[string]string {
	t.Helper()
	_, table, found := strings.Cut(out, "\n\nmissing ")
	require.True(t, found, out)
	rows := strings.Split(strings.TrimSuffix("missing "+table, "\n"), "\n")
	column := strings.Index(rows[0], "what to do")
	require.Positive(t, column, rows[0])
	all := map[string]string{}
	for _, row := range rows[1:] {
		require.Greater(t, len(row), column, "nothing to do about %q", row)
		all[strings.TrimSpace(row[:column])] = row[column:]
	}
	return all
}

// TestDoctorOnErrors takes an error of several lines, twice, and keeps the table's shape.
func TestDoctorOnErrors(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out)
	broken := errors.Join(errors.New("device lost"), errors.New("and its memory"))
	require.False(t, r.check(broken))
	require.False(t, r.check(broken))
	require.True(t, r.check(nil))
	require.Equal(t, 1, r.verdict())
	require.Contains(t, findings(t, out.String())["device lost; and its memory"], "dmesg")
	require.Contains(t, out.String(), "verdict   1 missing\n")
}

func TestDoctorTask(t *testing.T) {
	sim := cudasim.New(cudasim.Config{})
	cudasim.Limit(t, sim)
	open := func() (*cuda.Driver, error) { return sim.Driver(), nil }
	require.EqualError(t, answer(open, "dance"), `no task "dance"`)
	require.ErrorContains(t, answer(open, "handle:0"), "EOF")
	require.Error(t, answer(open, "descriptor:x"))
	cudasim.Check(t, sim)
	var out, errs bytes.Buffer
	require.Equal(t, 1, run([]string{"-task", "handle:00"}, &out, &errs, noDriver))
	require.Contains(t, errs.String(), "no NVIDIA driver")
}

func TestHostName(t *testing.T) {
	require.Contains(t, hostName(func(context.Context, string) ([]string, error) { return []string{"10.0.0.1", "::1"}, nil }), " is 10.0.0.1, ::1")
	require.Contains(t, hostName(func(context.Context, string) ([]string, error) { return nil, errors.New("unknown") }), "does not resolve here: unknown")
}

func TestSplit(t *testing.T) {
	where, algorithm := split("all_reduce ≤64 KiB: ll 16x256")
	require.Equal(t, []string{"≤64 KiB", "ll 16x256"}, []string{where, algorithm})
	where, algorithm = split("all_reduce ring 32x512")
	require.Equal(t, []string{"any", "ring 32x512"}, []string{where, algorithm})
	where, algorithm = split("all_reduce: ring 32x512")
	require.Equal(t, []string{"any", "ring 32x512"}, []string{where, algorithm})
}
