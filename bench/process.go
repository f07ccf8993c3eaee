package main

import (
	"os"
	"slices"
	"strings"
)

// getenv returns a variable of the environment, empty if it is not set.
func (p process) getenv(name string) string {
	for _, v := range p.environ {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// withoutMulticast switches NVLink multicast off in NCCL, here and in the processes to come, unless the environment says
// otherwise.
func (p process) withoutMulticast() (process, error) {
	if p.getenv(nvlsSwitch) != "" {
		return p, nil
	}
	p.environ = append(slices.Clone(p.environ), nvlsSwitch+"=0")
	return p, p.setenv(nvlsSwitch, "0")
}

// terminal reports whether w is a terminal. The null device passes for one, which does no harm.
func terminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
