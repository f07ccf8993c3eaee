// Colligo-doctor says what a machine has for collectives, and what is missing. It looks at the host, the driver, the devices and
// NCCL. It measures every link between devices, and shares memory between processes. It says which algorithms will be used.
//
//	colligo-doctor [flags]
//
// "colligo doctor" runs it. It is a program of its own because it binds the NVIDIA driver at run time. For that it needs the
// system's dynamic linker, which colligo does not.
//
// Invariants:
//
//  1. It exits with code 1 if something is missing that this machine should have, and says what. A machine without GPUs
//     misses none.
//  2. Arguments that make no sense exit with code 2 and the usage before anything is looked at.
//
// The program changes nothing on the machine.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/colligo-go/colligo/cuda"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, cuda.Open)) }

// run returns the exit code.
func run(args []string, stdout, stderr io.Writer, openDriver func() (*cuda.Driver, error)) int {
	if len(args) == 2 && args[0] == taskFlag {
		return doTask(args[1], stderr, openDriver)
	}
	library, bytes := "", 128
	f := flag.NewFlagSet("doctor", flag.ContinueOnError)
	f.IntVar(&bytes, "mib", bytes, "`MiB` of a copy between two devices")
	f.StringVar(&library, "nccl", "", "`path` of NCCL's library; empty looks in the usual places")
	f.SetOutput(io.Discard)
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(stdout, f)
		return 0
	case err != nil:
	case f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	case bytes < 1 || bytes > 4096:
		err = fmt.Errorf("-mib %d: from 1 to 4096", bytes)
	}
	if err != nil {
		fmt.Fprintf(stderr, "colligo doctor: %v\n", err)
		usage(stderr, f)
		return 2
	}
	e := &examiner{out: stdout, bytes: bytes << 20, exists: exists, another: another,
		library: func() (string, string, error) { return ncclAt(library) }}
	return e.examine(openDriver)
}

func usage(w io.Writer, f *flag.FlagSet) {
	fmt.Fprintln(w, "usage:\n  colligo doctor [flags]    say what this machine has for collectives, what is missing, and what to do about it")
	f.SetOutput(w)
	f.PrintDefaults()
}
