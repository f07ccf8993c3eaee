package nccl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/nccl"
)

// withKernels gives simulated devices the kernels that plans need.
func withKernels(t *testing.T, devices *cudasim.Sim, o nccl.Options) {
	t.Helper()
	if o.Plans == "" {
		return
	}
	require.NoError(t, model.Register(devices))
	for _, d := range []colligo.DType{colligo.Float32, colligo.BFloat16, colligo.Int64, colligo.Uint8} {
		for _, k := range []colligo.OpKind{colligo.KindSum, colligo.KindMax, colligo.KindMin, colligo.KindBXor} {
			if _, _, err := k.Check(d); err == nil {
				require.NoError(t, model.RegisterReduction(devices, d, k))
			}
		}
	}
}

// TestPlans compares the collectives that plans carry out with the CPU's. NCCL is asked for sends and receives alone.
func TestPlans(t *testing.T) {
	for _, plans := range []string{nccl.PlansRing, nccl.PlansTree} {
		for _, size := range []int{1, 2, 3, 5} {
			for _, d := range []colligo.DType{colligo.Float32, colligo.BFloat16, colligo.Int64, colligo.Uint8} {
				t.Run(fmt.Sprintf("%s/ranks=%d/%v", plans, size, d), func(t *testing.T) {
					s := onRanks(t, size, nccl.Options{Plans: plans}, func(r *rank) error { return r.plans(d, plans) })
					for _, own := range []string{"ncclAllReduce", "ncclReduce", "ncclReduceScatter", "ncclBcast", "ncclBroadcast", "ncclAllGather"} {
						require.NotContains(t, s.Calls(), own)
					}
					if size > 1 {
						require.Contains(t, s.Calls(), "ncclSend")
						require.Contains(t, s.Calls(), "ncclRecv")
					}
				})
			}
		}
	}
}

// plans compares the collectives that both planners have, and those of the ring.
func (r *rank) plans(d colligo.DType, plans string) error {
	ops := []colligo.ReduceOp{colligo.Sum, colligo.Max, colligo.Min}
	switch d {
	case colligo.Float32, colligo.BFloat16:
		ops = append(ops, colligo.PremulSum(0.5))
		if r.Size() != 3 && r.Size() != 5 { // whose averages are rounded in the order of the sum
			ops = append(ops, colligo.Avg)
		}
	default:
		ops = append(ops, colligo.Avg, colligo.BXor) // NCCL has no bits
	}
	var errs []error
	for _, n := range []int{0, 1, 37} {
		for _, by := range ops {
			errs = append(errs, r.planReductions(d, by, n))
		}
		errs = append(errs, r.planMoves(d, n))
		if plans == nccl.PlansRing {
			errs = append(errs, r.same("all_to_all", []colligo.Tensor{r.numbered(d, n*r.Size()), r.numbered(d, n*r.Size())},
				func(ctx context.Context, ts []colligo.Tensor) error {
					return r.AllToAllSingle(ctx, ts[1], ts[0], nil, nil)
				}))
		}
	}
	return errors.Join(errs...)
}

func (r *rank) planReductions(d colligo.DType, by colligo.ReduceOp, n int) error {
	what := fmt.Sprintf("%v of %d", by, n)
	errs := []error{
		r.same("all_reduce "+what, []colligo.Tensor{r.numbered(d, n)}, func(ctx context.Context, ts []colligo.Tensor) error {
			return r.AllReduce(ctx, ts[0], by)
		}),
		r.same("reduce_scatter "+what, []colligo.Tensor{r.numbered(d, n*r.Size()), r.numbered(d, n)},
			func(ctx context.Context, ts []colligo.Tensor) error {
				return r.ReduceScatterTensor(ctx, ts[1], ts[0], by)
			}),
	}
	for root := range r.Size() {
		ts := []colligo.Tensor{r.numbered(d, n)}
		if r.Rank() == root {
			errs = append(errs, r.same("reduce "+what, ts, func(ctx context.Context, ts []colligo.Tensor) error {
				return r.Reduce(ctx, ts[0], root, by)
			}))
			continue
		}
		on, err := r.moved(ts[0]) // elsewhere the output means nothing
		errs = append(errs, err, r.Reduce(r.ctx, on, root, by), r.Reduce(r.ctx, ts[0], root, by))
	}
	return errors.Join(errs...)
}

func (r *rank) planMoves(d colligo.DType, n int) error {
	errs := []error{r.same("all_gather", []colligo.Tensor{r.numbered(d, n*r.Size()), r.numbered(d, n)},
		func(ctx context.Context, ts []colligo.Tensor) error { return r.AllGatherIntoTensor(ctx, ts[0], ts[1]) })}
	for root := range r.Size() {
		errs = append(errs, r.same("broadcast", []colligo.Tensor{r.numbered(d, n)}, func(ctx context.Context, ts []colligo.Tensor) error {
			return r.Broadcast(ctx, ts[0], root)
		}))
	}
	return errors.Join(errs...)
}

// TestPlansLong carries out plans of several chunks, between a call of another library's own and the next.
func TestPlansLong(t *testing.T) {
	const n = 3<<20 + 5
	for _, plans := range []string{nccl.PlansRing, nccl.PlansTree} {
		t.Run(plans, func(t *testing.T) {
			onRanks(t, 3, nccl.Options{Plans: plans}, func(r *rank) error {
				return errors.Join(r.planReductions(colligo.Float32, colligo.Sum, n), r.messages(colligo.Float32), r.planMoves(colligo.Uint8, n))
			})
		})
	}
}

// TestPlansNonBlocking has groups that return before they are through.
func TestPlansNonBlocking(t *testing.T) {
	onRanks(t, 2, nccl.Options{Plans: nccl.PlansRing, Config: nccl.Config{NonBlocking: true}}, func(r *rank) error {
		return r.plans(colligo.Float32, nccl.PlansRing)
	})
}

// TestPlansUnknown refuses a name.
func TestPlansUnknown(t *testing.T) {
	onRanks(t, 1, nccl.Options{Plans: "star"}, func(r *rank) error {
		x, err := r.moved(r.numbered(colligo.Float32, 3))
		if err != nil {
			return err
		}
		if err := r.AllReduce(r.ctx, x, colligo.Sum); err == nil || !strings.Contains(err.Error(), `no plans called "star"`) {
			return fmt.Errorf("the error of unknown plans is %w", err)
		}
		return nil
	})
}
