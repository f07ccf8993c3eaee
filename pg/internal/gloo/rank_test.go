package gloo_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/object"
)

// TestMain makes this program a rank in Go where a test has started it as one.
func TestMain(m *testing.M) {
	if path := os.Getenv("GLOO_RANK_OPS"); path != "" {
		if err := rankInGo(path); err != nil {
			fmt.Println("error", err)
			os.Exit(3)
		}
		fmt.Println("over")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// rankInGo is testdata/rank.py in Go.
func rankInGo(path string) error {
	limit, err := strconv.ParseFloat(os.Getenv("LIMIT"), 64)
	if err != nil {
		return err
	}
	g, err := pg.Init(context.Background(), pg.Config{Backends: "gloo", Torch: os.Getenv("TORCH"), Interface: "127.0.0.1",
		Timeout: time.Duration(limit * float64(time.Second)), Recorder: pg.RecorderOptions{DumpOnError: pg.Off}})
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for i := 0; lines.Scan(); i++ {
		if err := newRankOp(g, i, strings.Fields(lines.Text())).run(); err != nil {
			return errors.Join(fmt.Errorf("operation %d: %w", i, err), g.Close())
		}
	}
	return errors.Join(lines.Err(), g.Close())
}

// rankOp is one line of the file of operations.
type rankOp struct {
	g          *pg.Group
	i, n, root int
	name       string
	dtype      colligo.DType
	op         colligo.ReduceOp
	special    bool // inputs have NaN and zeros of both signs
	rank, size int
}

func newRankOp(g *pg.Group, i int, f []string) *rankOp {
	o := &rankOp{g: g, i: i, name: f[0], rank: g.Rank(), size: g.Size()}
	for _, d := range colligo.DTypes() {
		if d.String() == f[1] {
			o.dtype = d
		}
	}
	o.n, _ = strconv.Atoi(f[2])
	o.root, _ = strconv.Atoi(f[3])
	o.root %= o.size
	o.op = map[string]colligo.ReduceOp{"sum": colligo.Sum, "product": colligo.Prod, "min": colligo.Min, "max": colligo.Max,
		"band": colligo.BAnd, "bor": colligo.BOr, "bxor": colligo.BXor, "avg": colligo.Avg}[f[4]]
	o.special = f[4] == "min" || f[4] == "max"
	return o
}

// values are the elements of a rank's input.
func (o *rankOp) values(seed, n int) []byte {
	b := make([]byte, 0, n*o.dtype.Size())
	for i := range n {
		x := uint64(i)*2654435761 + uint64(o.rank)*2654304257 + uint64(seed)*97003
		b = o.element(b, x&math.MaxUint32)
	}
	return b
}

func (o *rankOp) element(b []byte, x uint64) []byte {
	if !o.dtype.Float() {
		for k := range o.dtype.Size() {
			b = append(b, byte(x>>(8*k)))
		}
		return b
	}
	v := (float64(x)/4294967296 - 0.5) * 10
	if o.special && x%7 < 3 {
		v = [3]float64{math.Float64frombits(0x7ff8 << 48), 0, math.Copysign(0, -1)}[x%7] // the NaN that Python has
	}
	switch o.dtype {
	case colligo.Float64:
		return append(b, words(math.Float64bits(v), 8)...)
	case colligo.Float32:
		return append(b, words(uint64(math.Float32bits(float32(v))), 4)...)
	case colligo.Float16:
		return append(b, words(uint64(colligo.Float16FromFloat32(float32(v))), 2)...)
	}
	return append(b, words(uint64(colligo.BFloat16FromFloat32(float32(v))), 2)...)
}

func words(x uint64, n int) []byte {
	var b []byte
	for k := range n {
		b = append(b, byte(x>>(8*k)))
	}
	return b
}

func (o *rankOp) tensor(b []byte) colligo.Tensor { return colligo.Bytes(b, o.dtype) }

// tensors cuts memory into a tensor for each rank.
func (o *rankOp) tensors(b []byte) []colligo.Tensor {
	ts := make([]colligo.Tensor, o.size)
	each := len(b) / o.size
	for r := range ts {
		ts[r] = o.tensor(b[r*each : (r+1)*each : (r+1)*each])
	}
	return ts
}

func say(i int, err error, results ...[]byte) error {
	if err != nil {
		return err
	}
	h := sha256.New()
	for _, b := range results {
		h.Write(b)
	}
	fmt.Printf("result %d %x\n", i, h.Sum(nil)[:8])
	return nil
}

func (o *rankOp) run() error {
	ctx, g := context.Background(), o.g
	switch o.name {
	case "all_reduce", "reduce", "broadcast", "die", "sleep", "longer":
		return o.whole(ctx)
	case "all_gather", "gather", "scatter", "all_to_all_single", "all_to_all_uneven", "reduce_scatter_tensor":
		return o.parts(ctx)
	case "barrier":
		return say(o.i, g.Barrier(ctx))
	case "monitored_barrier":
		return say(o.i, g.MonitoredBarrier(ctx, 0, false))
	case "ring", "any":
		return o.messages(ctx)
	case "object":
		return o.object(ctx)
	}
	return o.several(ctx)
}

func (o *rankOp) whole(ctx context.Context) error {
	v := o.values(o.i, o.n)
	switch o.name {
	case "reduce":
		err := o.g.Reduce(ctx, o.tensor(v), o.root, o.op)
		if o.rank != o.root {
			v = nil
		}
		return say(o.i, err, v)
	case "broadcast":
		return say(o.i, o.g.Broadcast(ctx, o.tensor(v), o.root), v)
	case "die":
		if o.rank == o.root {
			os.Exit(9)
		}
	case "sleep":
		if o.rank == o.root {
			time.Sleep(20 * time.Second)
		}
	case "longer":
		if o.rank == o.root {
			v = o.values(o.i, o.n+1)
		}
	}
	return say(o.i, o.g.AllReduce(ctx, o.tensor(v), o.op), v)
}

func (o *rankOp) parts(ctx context.Context) error {
	g, v := o.g, o.values(o.i, o.n)
	all := make([]byte, len(v)*o.size)
	switch o.name {
	case "all_gather":
		return say(o.i, g.AllGather(ctx, o.tensors(all), o.tensor(v)), all)
	case "gather":
		var outs []colligo.Tensor
		if o.rank == o.root {
			outs = o.tensors(all)
		} else {
			all = nil
		}
		return say(o.i, g.Gather(ctx, outs, o.tensor(v), o.root), all)
	case "scatter":
		var ins []colligo.Tensor
		for k := range o.size {
			if o.rank == o.root {
				ins = append(ins, o.tensor(o.values(o.i*31+k, o.n)))
			}
		}
		return say(o.i, g.Scatter(ctx, o.tensor(v), ins, o.root), v)
	case "all_to_all_single":
		v = o.values(o.i, o.n*o.size)
		return say(o.i, g.AllToAllSingle(ctx, o.tensor(all), o.tensor(v), nil, nil), all)
	case "reduce_scatter_tensor":
		out := make([]byte, len(v))
		return say(o.i, g.ReduceScatterTensor(ctx, o.tensor(out), o.tensor(o.values(o.i, o.n*o.size)), o.op), out)
	}
	give, take := make([]int, o.size), make([]int, o.size)
	gives, takes := 0, 0
	for q := range o.size {
		give[q], take[q] = (o.rank+2*q)%3*o.n, (q+2*o.rank)%3*o.n
		gives, takes = gives+give[q], takes+take[q]
	}
	out := make([]byte, takes*o.dtype.Size())
	return say(o.i, g.AllToAllSingle(ctx, o.tensor(out), o.tensor(o.values(o.i, gives)), take, give), out)
}

func (o *rankOp) messages(ctx context.Context) error {
	v := o.values(o.i, o.n)
	if o.name == "ring" {
		out := make([]byte, len(v))
		r := o.g.RecvAsync(ctx, o.tensor(out), (o.rank+o.size-1)%o.size, o.root)
		s := o.g.SendAsync(ctx, o.tensor(v), (o.rank+1)%o.size, o.root)
		return say(o.i, errors.Join(r.Synchronize(ctx), s.Synchronize(ctx)), out)
	}
	if o.rank > 0 {
		return say(o.i, o.g.Send(ctx, o.tensor(v), 0, 77))
	}
	outs := make([][]byte, o.size)
	for range o.size - 1 {
		one := make([]byte, len(v))
		from, err := o.g.RecvAny(ctx, o.tensor(one), 77)
		if err != nil {
			return err
		}
		outs[from] = one
	}
	return say(o.i, nil, outs...)
}

func (o *rankOp) object(ctx context.Context) error {
	all, err := object.AllGather(ctx, o.g, object.Pickle, map[string]any{"rank": o.rank, "text": strings.Repeat("x", o.rank*3)})
	var b []byte
	for _, v := range all {
		rank, _ := v["rank"].(int64)
		text, _ := v["text"].(string)
		b = append(b, words(uint64(rank)*100+uint64(len(text)), 8)...)
	}
	return say(o.i, err, b)
}

// several runs the operations that are more than one call or of more than one tensor.
func (o *rankOp) several(ctx context.Context) error {
	g, v, more := o.g, o.values(o.i, o.n), o.values(o.i+1, 17)
	switch o.name {
	case "all_reduce_coalesced":
		return say(o.i, g.AllReduceCoalesced(ctx, []colligo.Tensor{o.tensor(v), o.tensor(more)}, o.op), v, more)
	case "all_gather_coalesced":
		a, b := make([]byte, len(v)*o.size), make([]byte, len(more)*o.size)
		err := g.AllGatherCoalesced(ctx, [][]colligo.Tensor{o.tensors(a), o.tensors(b)}, []colligo.Tensor{o.tensor(v), o.tensor(more)})
		return say(o.i, err, a, b)
	case "async":
		var vs [][]byte
		var works []*pg.Work
		for k := range 4 {
			vs = append(vs, o.values(o.i+k, o.n))
			works = append(works, g.AllReduceAsync(ctx, o.tensor(vs[k]), colligo.Sum))
		}
		var err error
		for _, w := range works {
			err = errors.Join(err, w.Synchronize(ctx))
		}
		return say(o.i, err, vs...)
	case "group":
		var ranks []int
		for r := range o.size {
			if r != o.root || o.size <= 2 {
				ranks = append(ranks, r)
			}
		}
		n, err := g.NewGroup(ctx, ranks)
		if err == nil && n.IsMember() {
			err = n.AllReduce(ctx, o.tensor(v), colligo.Sum)
		}
		return say(o.i, err, v)
	}
	return fmt.Errorf("no operation %q", o.name)
}
