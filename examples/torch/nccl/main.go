// Command nccl is a rank of a job of PyTorch's by NCCL. It carries out the calls of a file, one on each line, as rank.py does beside it,
// and compares every result. The script check.sh makes such jobs of ranks in Python and in Go, and prints a table:
//
//	CGO_ENABLED=0 go build -o nccl ./examples/torch/nccl
//	BIN=nccl examples/torch/nccl/check.sh
//
// It needs a GPU and a python3 with PyTorch 2.11 or later. Several ranks may share the GPU.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	_ "github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/pg"
)

func main() {
	path := flag.String("calls", "", "`file` of calls")
	eager := flag.Bool("eager", false, "bind the group to the device, as device_id does")
	device := flag.Int("device", 0, "number of the GPU")
	torch := flag.String("torch", "2.11", "version of PyTorch")
	limit := flag.Duration("limit", 20*time.Second, "for one operation")
	flag.Parse()
	c := pg.Config{Backends: "nccl", Torch: *torch, Timeout: *limit}
	if *eager {
		c.Device = gpu(*device)
	}
	driver, err := cuda.Open()
	wrong := 0
	if err == nil {
		wrong, err = run(context.Background(), driver, c, *device, *path)
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(3)
	}
	if wrong > 0 {
		os.Exit(1)
	}
}

// gpu is a device by its number.
func gpu(n int) colligo.Device { return colligo.Device{Kind: colligo.CUDA, Index: n} }

// run is the rank's life. It returns how many calls had a wrong result.
func run(ctx context.Context, driver *cuda.Driver, c pg.Config, device int, path string) (wrong int, err error) {
	d, err := driver.Device(device)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	g, err := pg.Init(ctx, c)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, g.CloseAll()) }()
	calls, err := read(path)
	if err != nil {
		return 0, err
	}
	for k := range calls {
		x := &calls[k]
		x.rank = &rank{Group: g, ctx: ctx, device: d, bound: c.Device.Kind == colligo.CUDA}
		err := errors.Join(x.run(), x.free())
		var bad *wrongError
		if errors.As(err, &bad) {
			wrong++
			fmt.Printf("wrong: call %d %v: %v\n", k, x, err)
		} else if err != nil {
			return wrong, fmt.Errorf("call %d %v: %w", k, x, err)
		}
	}
	fmt.Printf("over: %d calls, %d wrong\n", len(calls), wrong)
	return wrong, nil
}

// call is a line of the file.
type call struct {
	*rank
	number  int
	name    string
	dtype   colligo.DType
	n, root int
	op      string
}

// String is the line.
func (x *call) String() string {
	return fmt.Sprint(x.name, " ", x.dtype, " ", x.n, " ", x.root, " ", x.op)
}

var dtypes = map[string]colligo.DType{"float32": colligo.Float32, "bfloat16": colligo.BFloat16, "float16": colligo.Float16,
	"int64": colligo.Int64, "uint8": colligo.Uint8}

var ops = map[string]colligo.ReduceOp{"sum": colligo.Sum, "product": colligo.Prod, "min": colligo.Min, "max": colligo.Max, "avg": colligo.Avg}

// read reads a file of calls.
func read(path string) (all []call, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		x := call{number: len(all)}
		var dtype string
		if _, err := fmt.Fscan(strings.NewReader(lines.Text()), &x.name, &dtype, &x.n, &x.root, &x.op); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, lines.Text(), err)
		}
		var known bool
		if x.dtype, known = dtypes[dtype]; !known {
			return nil, fmt.Errorf("%s: no element type %q", path, dtype)
		}
		all = append(all, x)
	}
	return all, lines.Err()
}
