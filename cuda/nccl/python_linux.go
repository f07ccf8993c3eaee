//go:build amd64 || arm64

package nccl

import (
	"context"
	"os/exec"
	"strings"
	"time"
)

// wheel is where NVIDIA's wheel has the library, below a folder of Python packages.
const wheel = "/nvidia/nccl/lib/libnccl.so.2"

// queryLimit bounds the time of asking a Python.
const queryLimit = 5 * time.Second

// query has Python print the places of the library beside its torch, and among its packages. Nothing is imported but Python's own
// modules, and the working folder is not searched.
const query = `import sys
sys.path = [p for p in sys.path if p]
import importlib.util, os
for name in "torch", "nvidia":
    spec = importlib.util.find_spec(name)
    for at in (spec.submodule_search_locations or []) if spec else []:
        print(os.path.join(os.path.dirname(at), "nvidia", "nccl", "lib", "libnccl.so.2"))
        print(os.path.join(at, "lib", "libnccl.so.2"))
`

// asked returns the existing places that a Python tells, none if there is no such program or if it takes too long.
func asked(python string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), queryLimit)
	defer cancel()
	c := exec.CommandContext(ctx, python, "-c", query)
	c.WaitDelay = time.Second
	out, err := c.Output()
	if err != nil {
		return nil
	}
	var all []string
	for p := range strings.Lines(string(out)) {
		all = append(all, existing(strings.TrimSpace(p))...)
	}
	return all
}
