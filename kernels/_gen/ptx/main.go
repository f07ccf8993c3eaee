// Command ptx compiles the CUDA C++ sources in ../cuda to PTX with clang. It writes the compressed archives in ../../ptx, which package
// ptx embeds, and the table zz_ptx.go beside them. It needs no CUDA. Run it by go generate ./kernels/ptx.
//
// One archive holds all modules of one element type, one after another, so that what they share is stored once.
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	clang  = "clang-19"
	source = "cuda"
	target = "sm_80" // the first with bfloat16 conversions; newer devices compile it too
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ptx:", err)
		os.Exit(1)
	}
}

func run() error {
	archives := archives()
	if err := compileAll(archives); err != nil {
		return err
	}
	dir := filepath.Join("..", "ptx")
	old, err := filepath.Glob(filepath.Join(dir, "*.ptx.zst"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	for _, a := range archives {
		packed, err := pack(a.bytes())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, a.name+".ptx.zst"), packed, 0o644); err != nil {
			return err
		}
		fmt.Printf("%-16s %2d modules %8d bytes of PTX %6d compressed\n", a.name, len(a.modules), len(a.bytes()), len(packed))
	}
	table, err := table(archives)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "zz_ptx.go"), table, 0o644)
}

// compileAll fills in the PTX of every module, as many at a time as there are processors.
func compileAll(archives []*archive) error {
	kept, err := newCache(source)
	if err != nil {
		return err
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	failures := make(chan error, 1000)
	for _, a := range archives {
		for _, m := range a.modules {
			wait.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				if err := m.compile(kept); err != nil {
					failures <- fmt.Errorf("%s of %s: %w", m.name, a.name, err)
				}
			})
		}
	}
	wait.Wait()
	close(failures)
	return <-failures
}

func (m *module) compile(kept *cache) error {
	args := []string{"--cuda-device-only", "--cuda-gpu-arch=" + target, "-nocudainc", "-nocudalib", "-x", "cuda", "-std=c++20",
		"-O3", "-fno-unroll-loops", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-S", "-o", "-"}
	for _, d := range m.defines {
		args = append(args, "-D"+d)
	}
	ptx, err := kept.output(m.source, args, func() ([]byte, error) {
		cmd := exec.Command(clang, append(args, filepath.Join(source, m.source))...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, &stderr)
		}
		return stdout.Bytes(), nil
	})
	m.ptx = strip(ptx)
	return err
}

// strip removes comments and empty lines, which the driver would read for nothing.
func strip(ptx []byte) []byte {
	var out []byte
	for line := range bytes.Lines(ptx) {
		if at := bytes.Index(line, []byte("//")); at >= 0 {
			line = line[:at]
		}
		if line = bytes.TrimRight(line, " \t\n"); len(line) > 0 {
			out = append(append(out, line...), '\n')
		}
	}
	return out
}

func pack(b []byte) ([]byte, error) {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(8<<20))
	if err != nil {
		return nil, err
	}
	return w.EncodeAll(b, nil), w.Close()
}
