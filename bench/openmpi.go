package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// mpirunCommand compiles the program for Open MPI and returns the command line that starts it.
func (o *options) mpirunCommand(ctx context.Context, dir, socket, medium string) ([][]string, error) {
	source, program := filepath.Join(dir, "openmpi.c"), filepath.Join(dir, "openmpi")
	if err := os.WriteFile(source, openMPISource, fileMode); err != nil {
		return nil, err
	}
	compile := append(strings.Fields(o.mpicc), "-O2", "-o", program, source)
	if out, err := exec.CommandContext(ctx, compile[0], compile[1:]...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(compile, " "), err, indent(string(out)))
	}
	line := strings.Fields(o.mpirun)
	version, err := exec.CommandContext(ctx, line[0], "--version").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", line[0], err)
	}
	if !strings.Contains(string(version), "Open MPI") {
		return nil, errors.New(line[0] + " is not Open MPI's")
	}
	line = append(line, "-n", strconv.Itoa(o.ranks), "--mca", "pml", "ob1", "--mca", "btl", openMPIMedium(string(version), medium))
	if o.ranks > runtime.NumCPU() {
		line = append(line, "--oversubscribe")
	}
	return [][]string{append(line, program, socket)}, nil
}

// openMPIMedium names the components that carry bytes as colligo's medium does: shared memory or TCP. Shared memory has
// another name since version 5.
func openMPIMedium(version, medium string) string {
	if medium == "tcp" {
		return "self,tcp"
	}
	version = version[strings.LastIndexAny(strings.SplitN(version, ".", 2)[0], " v")+1:]
	if major, err := strconv.Atoi(strings.SplitN(version, ".", 2)[0]); err == nil && major >= 5 {
		return "self,sm"
	}
	return "self,vader"
}
