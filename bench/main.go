// Bench measures colligo's collectives and checks every element of their results. It prints a table with the columns and
// the bandwidths of NVIDIA's nccl-tests, so that numbers compare.
//
//	go run ./bench all_reduce -ranks 4
//	go run ./bench all_reduce -device cuda -compare nccl
//
// The first starts four processes on this machine, which meet through a store that the first process serves; the second
// one process for each GPU. Under a launcher that sets RANK, such as torchrun, each process joins instead.
//
// Invariants:
//
//  1. Sizes, iterations and batches are decided by rank 0 and broadcast: all ranks run the same operations.
//  2. Inputs tell their rank and position. They are whole numbers so small that every partial result is exact in the element
//     type: a result is right or wrong, never close.
//  3. Standard output holds the table or the JSON lines, nothing else.
//
// The program never changes what it measures: no call is replaced by a cheaper one, no iteration is dropped.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/nccl"
)

func main() {
	os.Exit(run(os.Args[1:], process{environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr,
		open: cuda.Open, library: nccl.Open, setenv: os.Setenv, began: time.Now()}))
}

// process is what the program gets from the system.
type process struct {
	environ        []string
	stdout, stderr io.Writer
	open           func() (*cuda.Driver, error)
	library        func(path string) (*nccl.Library, error)
	setenv         func(name, value string) error // for the libraries in this process
	began          time.Time
}

// run returns the exit code: 0 if all went well, 2 for arguments that make no sense, 1 for everything else.
func run(args []string, p process) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(p.stdout)
		return 0
	case err == nil && o.choices:
		if err = printChoices(p.stdout, o.rules); err != nil {
			return 1
		}
		return 0
	case err == nil:
		o.joins = p.getenv("RANK") != ""
		err = o.checkAll(p)
	}
	if err != nil {
		fmt.Fprintf(p.stderr, "bench: %v\n", err)
		shortUsage(p.stderr)
		return 2
	}
	if o.compare == "nccl" {
		if p, err = p.withoutMulticast(); err != nil {
			fmt.Fprintf(p.stderr, "bench: %v\n", err)
			return 1
		}
	}
	if o.tuned != "" && !o.joins {
		if err = os.WriteFile(o.tuned, nil, fileMode); err != nil {
			fmt.Fprintf(p.stderr, "bench: -out: %v\n", err)
			return 1
		}
	}
	switch {
	case o.inOneProcess():
		err = runInProcess(o, p)
	case o.joins:
		err = runRank(o, p)
	default:
		return runParents(o, p, append(slices.Clone(args), "-device", o.device)) // what auto has become
	}
	if err != nil {
		fmt.Fprintf(p.stderr, "bench: %v\n", err)
		return 1
	}
	return 0
}
