package nccl_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/pg"
)

// TestCapture has a graph capture collectives, a list and a block of messages, and launches it with other inputs each time. Operations
// that no graph has captured come before, between and behind. Each function of the library is called once for a capture.
func TestCapture(t *testing.T) {
	for _, o := range []nccl.Options{{}, {Config: nccl.Config{NonBlocking: true}}, {Plans: nccl.PlansRing}} {
		for size := 2; size <= 3; size++ {
			t.Run(fmt.Sprintf("ranks=%d/blocking=%v/plans=%s", size, !o.Config.NonBlocking, o.Plans), func(t *testing.T) {
				s := onRanks(t, size, o, (*rank).captures)
				for r := range size {
					require.Positive(t, s.Captures(r))
				}
				if o.Plans != "" {
					return
				}
				require.Equal(t, 4*size, count(s.Calls(), "ncclAllReduce"), "one captured, three beside")
				require.Equal(t, 2*size, count(s.Calls(), "ncclAllGather"), "both captured")
				require.Equal(t, size, count(s.Calls(), "ncclSend"), "captured")
			})
		}
	}
}

// captured is the tensors of a capture on one rank.
type captured struct {
	in, sum, all, message colligo.Tensor
	list                  []colligo.Tensor
}

func (r *rank) captures() (err error) {
	const n = 5
	var c captured
	for to, length := range map[*colligo.Tensor]int{&c.in: n, &c.sum: n, &c.all: n * r.Size(), &c.message: n} {
		if *to, err = r.moved(colligo.Of(make([]int64, length))); err != nil {
			return err
		}
	}
	for range r.Size() {
		part, err := r.moved(colligo.Of(make([]int64, n)))
		if err != nil {
			return err
		}
		c.list = append(c.list, part)
	}
	beside := func() error {
		x, err := r.moved(colligo.Of([]int64{int64(r.Rank()), 1}))
		if err != nil {
			return err
		}
		if err := r.AllReduce(r.ctx, x, colligo.Sum); err != nil {
			return err
		}
		got, err := r.bytes(x)
		if want := colligo.Of([]int64{int64(r.Size() * (r.Size() - 1) / 2), int64(r.Size())}); err == nil && !slices.Equal(got, want.CPUBytes()) {
			err = fmt.Errorf("the sum beside a graph is %v", got)
		}
		return err
	}
	if err := beside(); err != nil { // which makes the communicator
		return err
	}
	graph, err := r.capture(&c)
	if err != nil {
		return err
	}
	for launch := range 3 {
		if launch == 1 {
			if err := beside(); err != nil {
				return err
			}
		}
		if err := r.launched(graph, &c, launch); err != nil {
			return fmt.Errorf("launch %d: %w", launch, err)
		}
	}
	return errors.Join(beside(), r.on(func(t cuda.Thread) error { return t.DestroyGraph(graph) }))
}

// capture has a graph capture the operations.
func (r *rank) capture(c *captured) (graph cuda.GraphExec, err error) {
	err = r.on(func(t cuda.Thread) error {
		if err := t.BeginCapture(r.stream, cuda.CaptureThreadLocal); err != nil {
			return err
		}
		err := errors.Join(
			t.Copy(cuda.Pointer(c.sum.Addr()), cuda.Pointer(c.in.Addr()), c.in.Size(), r.stream),
			r.AllReduce(r.ctx, c.sum, colligo.Sum),
			r.AllGatherIntoTensor(r.ctx, c.all, c.in),
			r.AllGather(r.ctx, c.list, c.in),
			r.Coalesce(r.ctx, func(b *pg.Batch) error {
				b.Send(c.in, (r.Rank()+1)%r.Size(), 0)
				b.Recv(c.message, (r.Rank()+r.Size()-1)%r.Size(), 0)
				return nil
			}))
		var err2 error
		graph, err2 = t.EndCapture(r.stream)
		return errors.Join(err, err2)
	})
	return graph, err
}

// launched launches the graph with inputs of its own, and compares what it has made of them.
func (r *rank) launched(graph cuda.GraphExec, c *captured, launch int) error {
	const n = 5
	input := func(rank int) []int64 {
		all := make([]int64, n)
		for i := range all {
			all[i] = int64(100*launch + 10*rank + i)
		}
		return all
	}
	err := r.on(func(t cuda.Thread) error {
		page, err := t.AllocHost(c.in.Size())
		if err != nil {
			return err
		}
		copy(page.Bytes, colligo.Of(input(r.Rank())).CPUBytes())
		return errors.Join(t.Copy(cuda.Pointer(c.in.Addr()), page.Device, c.in.Size(), r.stream), t.LaunchGraph(graph, r.stream),
			t.Synchronize(r.stream), t.FreeHost(page))
	})
	if err != nil {
		return err
	}
	sum, all := make([]int64, n), []int64(nil)
	for q := range r.Size() {
		all = append(all, input(q)...)
		for i, v := range input(q) {
			sum[i] += v
		}
	}
	errs := []error{r.is("sum", c.sum, sum), r.is("all", c.all, all), r.is("message", c.message, input((r.Rank()+r.Size()-1)%r.Size()))}
	for q := range c.list {
		errs = append(errs, r.is(fmt.Sprint("part ", q), c.list[q], input(q)))
	}
	return errors.Join(errs...)
}

// is compares a tensor on the device.
func (r *rank) is(what string, x colligo.Tensor, want []int64) error {
	got, err := r.bytes(x)
	if err == nil && !slices.Equal(got, colligo.Of(want).CPUBytes()) {
		err = fmt.Errorf("%s is %v, not %v", what, got, want)
	}
	return err
}
