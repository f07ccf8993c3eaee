package main

import (
	"io"
	"os"

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
	report
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
	e.report = newReport(e.out)
	e.say("part", "what was found")
	e.host()
	e.gpus(open)
	if len(e.devices) > 0 {
		e.show()
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
