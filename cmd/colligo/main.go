// Colligo starts the ranks of a job on this machine and serves the store through which ranks meet. It also says from the dumps
// of a job what went wrong.
//
//	colligo run -n 4 [--] PROGRAM [ARGUMENTS]
//	colligo store -listen :29500
//	colligo doctor
//	colligo trace FOLDER
//	colligo settings
//	colligo version
//
// Invariants:
//
//  1. run exits after all ranks have ended, with the code of the first rank that failed. If a signal ended that rank, the
//     code is 128 and the signal's number.
//  2. Each line of output appears whole, behind the rank that wrote it.
//  3. Arguments that make no sense exit with code 2 and the usage before anything is started.
//  4. Built without cgo for Linux, the program is static. So it binds no driver: doctor is the program colligo-doctor, which is
//     looked for beside this one and then in PATH.
//  5. trace exits with code 1 if the dumps of a job show that something is wrong, and says what on the first line.
//
// The program never restarts a rank and never schedules across machines: launchers such as Slurm and Kubernetes do.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/colligo-go/colligo/internal/launch"
)

func main() {
	os.Exit(run(os.Args[1:], system{environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr, signals: catch}))
}

// catch takes the signals that would otherwise end the program.
func catch() <-chan os.Signal {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, launch.Forwarded()...)
	return signals
}

// system is what the program gets from the system.
type system struct {
	environ        []string
	stdout, stderr io.Writer
	signals        func() <-chan os.Signal // from then on they end nothing; only those who act on them call it
}

const usage = `usage:
  colligo run -n RANKS [flags] [--] PROGRAM [ARGUMENTS]    start PROGRAM once for each rank on this machine
  colligo store -listen HOST:PORT                          serve a TCP store until a signal
  colligo doctor [flags]                                   say what this machine has for collectives, and what to do about what is missing
  colligo trace [flags] FOLDER...                          say from the flight recorders' dumps who is missing, differs or is slow
  colligo settings                                         list the environment variables that groups read
  colligo version                                          say which version this is
"colligo run -help" and so on list the flags.
`

// usageOf returns the line about one command, "" if there is no such command.
func usageOf(command string) string {
	for line := range strings.Lines(usage) {
		if strings.HasPrefix(line, "  colligo "+command+" ") {
			return line
		}
	}
	return ""
}

// run returns the exit code.
func run(args []string, s system) int {
	if len(args) == 0 {
		fmt.Fprint(s.stderr, usage)
		return 2
	}
	switch args[0] {
	case "run":
		return s.runJob(args[1:])
	case "store":
		return s.serveStore(args[1:])
	case "doctor":
		return s.doctor(args[1:])
	case "trace":
		return s.trace(args[1:])
	case "settings":
		return s.settings(args[1:])
	case "version":
		return s.version(args[1:])
	case "help", "-help", "-h", "--help":
		if len(args) > 1 && usageOf(args[1]) != "" {
			return run([]string{args[1], "-help"}, s)
		}
		fmt.Fprint(s.stdout, usage)
		return 0
	}
	fmt.Fprintf(s.stderr, "colligo: unknown command %q\n%s", args[0], usage)
	return 2
}

// parse parses a subcommand's flags. When it says not ok, the exit code is to be used.
func (s system) parse(f *flag.FlagSet, args []string) (code int, ok bool) {
	f.SetOutput(io.Discard)
	err := f.Parse(args)
	switch {
	case err == nil:
		return 0, true
	case errors.Is(err, flag.ErrHelp):
		usageWith(s.stdout, f)
		return 0, false
	}
	return s.misuse(f, err), false
}

// usageWith prints the line about a command, and its flags.
func usageWith(w io.Writer, f *flag.FlagSet) {
	fmt.Fprintf(w, "usage:\n%s", usageOf(f.Name()))
	f.SetOutput(w)
	f.PrintDefaults()
}

// misuse reports arguments that make no sense, and says behind them what does.
func (s system) misuse(f *flag.FlagSet, err error) int {
	fmt.Fprintf(s.stderr, "colligo %s: %v\n", f.Name(), err)
	usageWith(s.stderr, f)
	return 2
}
