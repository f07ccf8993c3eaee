//go:build unix

package gloo_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/object"
	"github.com/colligo-go/colligo/pg/sparse"
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
	flag.Parse()
	code := m.Run()
	server.stop()
	os.Exit(code)
}

// rankInGo is testdata/rank.py in Go.
func rankInGo(path string) error {
	limit, err := strconv.ParseFloat(os.Getenv("LIMIT"), 64)
	if err != nil {
		return err
	}
	g, err := pg.Init(context.Background(), pg.Config{Backends: "gloo", Torch: os.Getenv("TORCH"), Interface: os.Getenv("GLOO_RANK_INTERFACES"),
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
	var r room
	for lines.Scan() {
		r.used = 0
		o, start := newRankOp(g, &r, strings.Fields(lines.Text())), time.Now()
		if err := o.run(); err != nil {
			fmt.Println("waited", time.Since(start).Seconds())
			return errors.Join(fmt.Errorf("%s: %w", lines.Text(), err), g.Close())
		}
	}
	return errors.Join(lines.Err(), g.Close())
}

// room is memory that serves one operation after the other. New memory for each takes longer than the operation, page by page.
type room struct {
	all  []byte
	used int
}

// take returns memory with any contents, as torch.empty does.
func (r *room) take(n int) []byte {
	at := r.used
	r.used += (n + 63) &^ 63
	if r.used > len(r.all) { // what was given out stays with those who have it
		r.all, r.used, at = make([]byte, 2*r.used), (n+63)&^63, 0
	}
	return r.all[at : at+n : at+n]
}

// rankOp is one line of the file of operations.
type rankOp struct {
	g          *pg.Group
	room       *room
	fields     []string // of the line
	n, root    int
	name       string
	dtype      colligo.DType
	op         colligo.ReduceOp
	i          int  // of the operation: its values and its name in results
	special    bool // inputs have NaN and zeros of both signs
	rank, size int
}

func newRankOp(g *pg.Group, r *room, f []string) *rankOp {
	o := &rankOp{g: g, room: r, fields: f, name: f[0], rank: g.Rank(), size: g.Size()}
	for _, d := range colligo.DTypes() {
		if d.String() == f[1] {
			o.dtype = d
		}
	}
	o.n, _ = strconv.Atoi(f[2])
	o.root, _ = strconv.Atoi(f[3])
	o.root %= o.size
	o.i, _ = strconv.Atoi(f[5])
	o.op = map[string]colligo.ReduceOp{"sum": colligo.Sum, "product": colligo.Prod, "min": colligo.Min, "max": colligo.Max,
		"band": colligo.BAnd, "bor": colligo.BOr, "bxor": colligo.BXor, "avg": colligo.Avg}[f[4]]
	o.special = f[4] == "min" || f[4] == "max"
	return o
}

// period is that of the elements, so that large tensors are made fast.
const period = 4099

// values are the elements of a rank's input.
func (o *rankOp) values(seed, n int) []byte {
	size := o.dtype.Size()
	b := o.room.take(n * size)
	for i := range min(n, period) {
		x := (uint64(i)*2654435761 + uint64(o.rank)*2654304257 + uint64(seed)*97003) & math.MaxUint32
		o.element(b[i*size:(i+1)*size], x)
	}
	for at := period * size; at < len(b); at *= 2 {
		copy(b[at:], b[:at])
	}
	return b
}

func (o *rankOp) element(b []byte, x uint64) {
	v := (float64(x)/4294967296 - 0.5) * 10
	if o.special && x%7 < 3 {
		v = [3]float64{math.Float64frombits(0x7ff8 << 48), 0, math.Copysign(0, -1)}[x%7] // the NaN that Python has
	}
	switch o.dtype {
	case colligo.Float64:
		binary.LittleEndian.PutUint64(b, math.Float64bits(v))
	case colligo.Float32:
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(v)))
	case colligo.Float16:
		binary.LittleEndian.PutUint16(b, uint16(colligo.Float16FromFloat32(float32(v))))
	case colligo.BFloat16:
		binary.LittleEndian.PutUint16(b, uint16(colligo.BFloat16FromFloat32(float32(v))))
	default:
		for k := range b {
			b[k] = byte(x >> (8 * k))
		}
	}
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
	case "all_reduce", "reduce", "broadcast":
		return o.whole(ctx)
	case "time_all_reduce", "time_broadcast":
		return o.time(ctx)
	case "die", "stop", "skip", "longer", "retyped", "other":
		return o.fault(ctx)
	case "all_gather", "all_gather_into", "gather", "scatter", "all_to_all_single", "all_to_all_uneven", "all_to_all", "reduce_scatter_tensor", "reduce_scatter":
		return o.parts(ctx)
	case "all_to_all_refused", "reduce_scatter_refused":
		return o.refused(ctx)
	case "barrier":
		return say(o.i, g.Barrier(ctx))
	case "monitored_barrier":
		return say(o.i, g.MonitoredBarrier(ctx, 0, o.n > 1))
	case "ring", "any":
		return o.messages(ctx)
	case "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list":
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
	}
	return say(o.i, o.g.AllReduce(ctx, o.tensor(v), o.op), v)
}

// time says how many seconds a call takes, in the median of as many laps as the field of the root tells. In a lap each rank is the
// root of one broadcast, so that no rank runs ahead. A rank that sends may be done before those that receive. So a single call's
// time would tell of one root alone, and of what is left of the call before.
func (o *rankOp) time(ctx context.Context) error {
	laps, _ := strconv.Atoi(o.fields[3])
	v := make([]byte, o.n*o.dtype.Size())
	lap := func() error {
		for root := range o.size {
			var err error
			if o.name == "time_broadcast" {
				err = o.g.Broadcast(ctx, o.tensor(v), root)
			} else {
				err = o.g.AllReduce(ctx, o.tensor(v), colligo.Sum)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	for range 1 + laps/10 { // what is first used then
		if err := lap(); err != nil {
			return err
		}
	}
	if err := o.g.Barrier(ctx); err != nil {
		return err
	}
	var took []float64
	for range laps {
		start := time.Now()
		if err := lap(); err != nil {
			return err
		}
		took = append(took, time.Since(start).Seconds()/float64(o.size))
	}
	slices.Sort(took)
	fmt.Printf("result %d %g\n", o.i, took[laps/2])
	return nil
}

// signalled sends this process a signal and goes on no further. The kernel delivers a signal to a thread of its choice, so the call returns
// before the process stops.
func signalled(s syscall.Signal) error {
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		return err
	}
	time.Sleep(time.Hour)
	return nil
}

// fault is what one rank does in the place of the others' all-reduce.
func (o *rankOp) fault(ctx context.Context) error {
	v := o.values(o.i, o.n)
	if o.rank == o.root {
		switch o.name {
		case "die":
			return signalled(syscall.SIGKILL)
		case "stop":
			return signalled(syscall.SIGSTOP)
		case "skip":
			return nil
		case "longer":
			v = o.values(o.i, o.n+1)
		case "retyped":
			return o.g.AllReduce(ctx, colligo.Of(make([]float64, o.n)), o.op)
		case "other":
			return o.g.Broadcast(ctx, o.tensor(v), o.root)
		}
	}
	return o.g.AllReduce(ctx, o.tensor(v), o.op)
}

// refused makes calls that the version of PyTorch refuses before it says anything to other ranks.
func (o *rankOp) refused(ctx context.Context) error {
	all := o.room.take(o.n * o.dtype.Size() * o.size)
	v := o.values(o.i, o.n)
	var err error
	switch o.name {
	case "all_to_all_refused":
		err = o.g.AllToAll(ctx, o.tensors(all), o.tensors(all))
	case "reduce_scatter_refused":
		err = o.g.ReduceScatter(ctx, o.tensor(v), o.tensors(all), colligo.Sum)
	}
	if err == nil {
		return errors.New("the call is not refused")
	}
	return say(o.i, nil)
}

func (o *rankOp) parts(ctx context.Context) error {
	g, v := o.g, o.values(o.i, o.n)
	all := o.room.take(len(v) * o.size)
	switch o.name {
	case "all_gather":
		return say(o.i, g.AllGather(ctx, o.tensors(all), o.tensor(v)), all)
	case "all_gather_into":
		return say(o.i, g.AllGatherIntoTensor(ctx, o.tensor(all), o.tensor(v)), all)
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
	case "all_to_all":
		return say(o.i, g.AllToAll(ctx, o.tensors(all), o.tensors(o.values(o.i, o.n*o.size))), all)
	case "reduce_scatter":
		out := o.room.take(len(v))
		return say(o.i, g.ReduceScatter(ctx, o.tensor(out), o.tensors(o.values(o.i, o.n*o.size)), o.op), out)
	case "reduce_scatter_tensor":
		out := o.room.take(len(v))
		return say(o.i, g.ReduceScatterTensor(ctx, o.tensor(out), o.tensor(o.values(o.i, o.n*o.size)), o.op), out)
	}
	give, take := make([]int, o.size), make([]int, o.size)
	gives, takes := 0, 0
	for q := range o.size {
		give[q], take[q] = (o.rank+2*q)%3*o.n, (q+2*o.rank)%3*o.n
		gives, takes = gives+give[q], takes+take[q]
	}
	out := o.room.take(takes * o.dtype.Size())
	return say(o.i, g.AllToAllSingle(ctx, o.tensor(out), o.tensor(o.values(o.i, gives)), take, give), out)
}

func (o *rankOp) messages(ctx context.Context) error {
	v := o.values(o.i, o.n)
	if o.name == "ring" {
		out := o.room.take(len(v))
		r := o.g.RecvAsync(ctx, o.tensor(out), (o.rank+o.size-1)%o.size, o.root)
		s := o.g.SendAsync(ctx, o.tensor(v), (o.rank+1)%o.size, o.root)
		return say(o.i, errors.Join(r.Synchronize(ctx), s.Synchronize(ctx)), out)
	}
	if o.rank != o.root {
		return say(o.i, o.g.Send(ctx, o.tensor(v), o.root, o.tag()))
	}
	outs := make([][]byte, o.size)
	for range o.size - 1 {
		one := o.room.take(len(v))
		from, err := o.g.RecvAny(ctx, o.tensor(one), o.tag())
		if err != nil {
			return err
		}
		outs[from] = one
	}
	return say(o.i, nil, outs...)
}

// tag is one that no other call has. The slots of a monitored barrier are those of tags that count collectives, so it is above them.
func (o *rankOp) tag() int { return 1_000_000 + o.i }

// own is what a rank says of itself.
func own(rank int) map[string]any {
	return map[string]any{"rank": rank, "text": strings.Repeat("x", rank*3)}
}

func (o *rankOp) object(ctx context.Context) error {
	var all []map[string]any
	var err error
	switch o.name {
	case "all_gather_object":
		all, err = object.AllGather(ctx, o.g, object.Pickle, own(o.rank))
	case "gather_object":
		all, err = object.Gather(ctx, o.g, object.Pickle, own(o.rank), o.root)
	case "broadcast_object_list":
		all = make([]map[string]any, 2)
		if o.rank == o.root {
			all = []map[string]any{own(o.root), own(o.root + 5)}
		}
		err = object.BroadcastList(ctx, o.g, object.Pickle, all, o.root)
	case "scatter_object_list":
		var give []map[string]any
		for k := 0; k < o.size && o.rank == o.root; k++ {
			give = append(give, own(k+3))
		}
		all = make([]map[string]any, 1)
		all[0], err = object.ScatterList(ctx, o.g, object.Pickle, give, o.root)
	}
	var b []byte
	for _, v := range all {
		rank, err2 := strconv.Atoi(fmt.Sprint(v["rank"])) // an int of this rank, an int64 of a decoded one
		text, _ := v["text"].(string)
		b = append(b, words(uint64(rank)*100+uint64(len(text)), 8)...)
		err = errors.Join(err, err2)
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
		a, b := o.room.take(len(v)*o.size), o.room.take(len(more)*o.size)
		err := g.AllGatherCoalesced(ctx, [][]colligo.Tensor{o.tensors(a), o.tensors(b)}, []colligo.Tensor{o.tensor(v), o.tensor(more)})
		return say(o.i, err, a, b)
	case "all_gather_into_coalesced":
		a, b := o.room.take(len(v)*o.size), o.room.take(len(more)*o.size)
		err := g.AllGatherIntoTensorCoalesced(ctx, []colligo.Tensor{o.tensor(a), o.tensor(b)}, []colligo.Tensor{o.tensor(v), o.tensor(more)})
		return say(o.i, err, a, b)
	case "reduce_scatter_coalesced":
		a, b := o.room.take(len(v)), o.room.take(len(more))
		ins := []colligo.Tensor{o.tensor(o.values(o.i, o.n*o.size)), o.tensor(o.values(o.i+1, 17*o.size))}
		return say(o.i, g.ReduceScatterTensorCoalesced(ctx, []colligo.Tensor{o.tensor(a), o.tensor(b)}, ins, o.op), a, b)
	case "asynchronous":
		var vs [][]byte
		var works []*pg.Work
		for k, n := range []int{o.n, 1001, o.n, 1001} { // short tensors among long ones
			vs = append(vs, o.values(o.i+k, min(o.n, n)))
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
	if o.name == "sparse" {
		return o.sparse(ctx)
	}
	return fmt.Errorf("no operation %q", o.name)
}

// sparse sums tensors of 997 rows of three elements. No rank names a row twice: in which order PyTorch adds these is not told.
func (o *rankOp) sparse(ctx context.Context) error {
	v, size := o.values(o.i, o.n), o.dtype.Size()
	s := sparse.Tensor{Rows: 997}
	var rows []byte
	for i := range o.n {
		s.Indices = append(s.Indices, int64(i*(o.rank+3)%997))
		for range 3 {
			rows = append(rows, v[i*size:(i+1)*size]...)
		}
	}
	s.Values = colligo.Bytes(rows, o.dtype, o.n, 3)
	sum, err := sparse.AllReduce(ctx, o.g, s, colligo.Sum)
	if err != nil {
		return err
	}
	var indices []byte
	for _, x := range sum.Indices {
		indices = append(indices, words(uint64(x), 8)...)
	}
	return say(o.i, nil, indices, sum.Values.CPUBytes())
}
