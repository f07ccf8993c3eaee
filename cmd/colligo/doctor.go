package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

// doctorProgram is the program that examines a machine.
const doctorProgram = "colligo-doctor"

// doctor runs colligo-doctor and returns its exit code.
func (s system) doctor(args []string) int {
	path, err := findDoctor()
	if err != nil && asksForHelp(args) {
		fmt.Fprintf(s.stdout, doctorUsage, doctorProgram)
		return 0
	}
	if err != nil {
		fmt.Fprintf(s.stderr, "colligo doctor: %v; install it with: go install github.com/colligo-go/colligo/cmd/%s@latest\n", err, doctorProgram)
		return 1
	}
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.environ, s.stdout, s.stderr
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintf(s.stderr, "colligo doctor: %v\n", err)
		return 1
	}
	return 0
}

// doctorUsage stands in for the program's own usage where it is not installed.
const doctorUsage = `usage:
  colligo doctor [flags]    say what this machine has for collectives, what is missing, and what to do about it

The program is %[1]s, which is not here: neither beside colligo nor in PATH. Install it, and it lists its flags, with

  go install github.com/colligo-go/colligo/cmd/%[1]s@latest
  colligo doctor -help
`

// asksForHelp reports whether the arguments ask for the usage alone.
func asksForHelp(args []string) bool {
	return len(args) == 1 && slices.Contains([]string{"-h", "-help", "--h", "--help"}, args[0])
}

// findDoctor looks for the doctor's program beside this one, and then in PATH.
func findDoctor() (string, error) {
	name := doctorProgram
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		if beside := filepath.Join(filepath.Dir(self), name); isFile(beside) {
			return beside, nil
		}
	}
	return exec.LookPath(name)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
