package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakes are programs in place of Python and of a rank in Go. FAULT says what goes wrong.
const fakes = `#!/usr/bin/env bash
me=$(basename "$0")
case "$*" in
-c\ import\ torch*) echo PyTorch; exit ;;
-c\ import\ glob*) exit ;;
*rank.py\ calls*) echo all_reduce float32 1 0 sum; exit ;;
*torch.distributed.run*)
  entry=${!#}
  for r in 0 1 2 3; do RANK=$r "$entry"; done
  [ "$FAULT" = torchrun ] && exit 1
  exit 0 ;;
esac
file=$(printf '%s\n' "$@" | grep -m 1 "^$WORK/" || true)
if dead=$(grep -o -m 1 'die float32 64 .' "$file"); then
  dead=${dead##* }
  [ "$RANK" = "$dead" ] && exit 9
  if [ "$FAULT" = unnamed ]; then echo "failed: something"; exit 3; fi
  if [ "$FAULT" = stays ]; then echo "over: 2 calls, 0 wrong"; exit 0; fi
  echo "failed: call 1: rank $dead is gone: NCCL error: remote"
  exit 3
fi
if [ "$FAULT" = wrong ] && [ "$me" = go ]; then echo "wrong: call 1"; echo "over: 2 calls, 1 wrong"; exit 1; fi
if [ "$FAULT" = status ] && [ "$me" = python ]; then echo "over: 2 calls, 0 wrong"; exit 5; fi
if [ "$FAULT" = silent ]; then exit 0; fi
echo "over: 2 calls, 0 wrong"
`

// TestCheck holds that check.sh fails when a job does.
func TestCheck(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash:", err)
	}
	folder := t.TempDir()
	for _, name := range []string{"python", "go"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(fakes), 0o700))
	}
	for _, x := range []struct {
		fault, which string
		good         bool
		text         string
	}{
		{"", "eager", true, ""},
		{"", "killed", true, ""},
		{"", "torchrun", true, ""},
		{"wrong", "lazy", false, "FAIL: lazy-py0-go1: rank 1 in go has ended with 1"},
		{"status", "eager", false, "FAIL: eager-py0-go1: rank 0 in py has ended with 5"},
		{"silent", "eager", false, "rank 0 in py has not said that no result is wrong"},
		{"unnamed", "killed", false, "FAIL: killed-py0: rank 1 in go does not name rank 0"},
		{"stays", "killed", false, "rank 1 in py has ended with 0 after rank 0 was killed"},
		{"wrong", "torchrun", false, "FAIL: torchrun-eager: 1.go"},
		{"torchrun", "torchrun", false, "torchrun has ended with 1"},
		{"", "nothing", false, "there is no case nothing"},
	} {
		t.Run(x.fault+"/"+x.which, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			work := t.TempDir()
			c := exec.CommandContext(ctx, bash, "check.sh", work, x.which)
			c.Env = append(os.Environ(), "PYTHON="+filepath.Join(folder, "python"), "BIN="+filepath.Join(folder, "go"), "WORK="+work, "FAULT="+x.fault)
			out, err := c.CombinedOutput()
			require.Equal(t, x.good, err == nil, "%v: %s", err, out)
			require.Contains(t, string(out), x.text)
		})
	}
}
