package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/nccl"
)

// examiner is one run of the doctor. Its parts print what they find, and note what is missing.
type examiner struct {
	out     io.Writer
	bytes   int                                 // of a copy between devices
	exists  func(path string) bool              // of files
	another func(task string, f *os.File) error // runs a part of a check in another process, with f as its descriptor 3
	library func() (path, version string, err error)

	driver  *cuda.Driver // nil without
	devices []*cuda.Device
	apart   []string // pairs of devices without P2P
	edges   int      // measured
	missing []string // what the user likely expects and does not have
}

// doctor says what there is for collectives on this machine. It returns 1 if something is missing.
func (s system) doctor(args []string) int {
	var task, library string
	bytes := 128
	f := flag.NewFlagSet("doctor", flag.ContinueOnError)
	f.IntVar(&bytes, "mib", bytes, "`MiB` of a copy between two devices")
	f.StringVar(&library, "nccl", "", "`path` of NCCL's library; empty looks in the usual places")
	f.StringVar(&task, "task", "", "what doctor asks of another process of its own")
	if code, ok := s.parse(f, args); !ok {
		return code
	}
	switch {
	case f.NArg() > 0:
		return s.misuse("doctor", fmt.Errorf("unexpected argument %q", f.Arg(0)))
	case bytes < 1 || bytes > 4096:
		return s.misuse("doctor", fmt.Errorf("-mib %d: from 1 to 4096", bytes))
	case task != "":
		return s.doctorTask(task)
	}
	e := &examiner{out: s.stdout, bytes: bytes << 20, exists: exists, another: another,
		library: func() (string, string, error) { return ncclAt(library) }}
	return e.examine(s.openDriver)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// ncclAt returns where NCCL lies.
func ncclAt(path string) (where, version string, err error) {
	l, err := nccl.Open(path)
	if err != nil {
		return "", "", err
	}
	return mappedFile("libnccl", l.Path), l.Version(), nil
}

// examine runs all checks.
func (e *examiner) examine(open func() (*cuda.Driver, error)) int {
	e.host()
	e.gpus(open)
	if len(e.devices) > 0 {
		e.links()
		e.sharing()
		e.nccl()
	}
	e.plans()
	for _, d := range e.devices {
		e.check(d.Close())
	}
	return e.verdict()
}

// verdict prints what is missing.
func (e *examiner) verdict() int {
	if len(e.missing) == 0 {
		e.say("verdict", "nothing is missing")
		return 0
	}
	for _, m := range e.missing {
		e.say("missing", "%s", m)
	}
	return 1
}

// say prints a line behind a heading, or one that goes on with the last.
func (e *examiner) say(about, format string, args ...any) {
	if about != "" {
		about += ":"
	}
	fmt.Fprintf(e.out, "%-9s %s\n", about, fmt.Sprintf(format, args...))
}

// miss notes what the user likely expects. Anything said twice counts once.
func (e *examiner) miss(format string, args ...any) {
	m := fmt.Sprintf(format, args...)
	if !strings.Contains(strings.Join(e.missing, "\n"), m) {
		e.missing = append(e.missing, m)
	}
}

// check notes an error that nothing but a broken driver gives. It reports whether there is none.
func (e *examiner) check(err error) bool {
	if err != nil {
		e.miss("%v", err)
	}
	return err == nil
}
