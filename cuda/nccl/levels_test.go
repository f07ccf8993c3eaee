package nccl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/cuda/internal/hostid"
	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/nccl/ncclsim"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/plan"
)

// job describes a group whose ranks are dealt to simulated hosts.
type job struct {
	hosts   []int // of each rank
	rules   []nccl.Rule
	apart   bool // devices do not reach each other
	stops   bool // kernels, by a failure
	timeout time.Duration
	said    bytes.Buffer // what the ranks log
	mu      sync.Mutex
}

func (j *job) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.said.Write(b)
}

// always takes two levels for everything.
var always = []nccl.Rule{{Coll: plan.AllReduce, Algorithm: nccl.TwoLevel}}

// run calls f for each rank. Errors of ranks are the test's.
func (j *job) run(t *testing.T, f func(r *rank) error) *ncclsim.Sim {
	t.Helper()
	config := cudasim.Config{Devices: len(j.hosts), Seed: 1, Patience: simPatience}
	if j.apart {
		config.CanAccess = func(int, int) bool { return false }
	}
	devices := cudasim.New(config)
	cudasim.Limit(t, devices)
	require.NoError(t, model.Register(devices))
	for _, d := range []colligo.DType{colligo.Float32, colligo.BFloat16, colligo.Float8E4M3FN, colligo.Int64, colligo.Uint8, colligo.Complex64} {
		for _, k := range []colligo.OpKind{colligo.KindSum, colligo.KindMax, colligo.KindMin} {
			if d != colligo.Complex64 || k == colligo.KindSum {
				require.NoError(t, model.RegisterReduction(devices, d, k))
			}
		}
	}
	c := pg.Config{Timeout: time.Minute, Log: slog.New(slog.NewTextHandler(j, nil))}
	return withLibrary(t, devices, len(j.hosts), c, func(rank int) context.Context {
		ctx := peer.With(t.Context(), peer.Options{Driver: devices.Driver(), Memory: 24 << 20})
		return hostid.With(ctx, fmt.Sprint("host ", j.hosts[rank]))
	}, nccl.Options{Rules: j.rules, Timeout: j.timeout}, j.stops, f)
}

// reduced compares all-reduces of one type with the CPU's. It returns how many there were.
func (r *rank) reduced(d colligo.DType, ops []colligo.ReduceOp, counts ...int) (n int, err error) {
	var errs []error
	for _, op := range ops {
		for _, count := range counts {
			n++
			errs = append(errs, r.same(fmt.Sprintf("%v of %d", op, count), []colligo.Tensor{r.numbered(d, count)},
				func(ctx context.Context, ts []colligo.Tensor) error {
					if n%2 == 0 {
						return r.AllReduce(ctx, ts[0], op)
					}
					return r.AllReduceAsync(ctx, ts[0], op).Wait(ctx)
				}))
		}
	}
	return n, errors.Join(errs...)
}

// twoLevels returns how many collectives have gone in two levels, and how many NCCL has carried alone.
func (r *rank) twoLevels() (two, flat int) {
	n := r.Metrics().Carried
	return int(n[nccl.TwoLevel]), int(n[nccl.Flat])
}

// TestTwoLevels compares all-reduces in two levels with the CPU's. The ranks of a host follow each other or not. Some tensors are so short
// that they leave ranks without a part, and some are uneven.
func TestTwoLevels(t *testing.T) {
	sums := []colligo.ReduceOp{colligo.Sum}
	for name, hosts := range map[string][]int{"2x2": {0, 0, 1, 1}, "2x2 dealt": {0, 1, 0, 1}, "3x2": {0, 0, 1, 1, 2, 2}, "2x3": {5, 4, 4, 5, 5, 4}} {
		t.Run(name, func(t *testing.T) {
			j := &job{hosts: hosts, rules: always}
			s := j.run(t, func(r *rank) error {
				n, err := r.reduced(colligo.Float32, []colligo.ReduceOp{colligo.Sum, colligo.Max, colligo.PremulSum(0.5)}, 1, 3, 4, 48, 1001, 1<<16)
				m, err2 := r.reduced(colligo.Int64, []colligo.ReduceOp{colligo.Sum, colligo.Min}, 1, 7, 600)
				k, err3 := r.reduced(colligo.BFloat16, sums, 5, 4800)
				l, err4 := r.reduced(colligo.Uint8, sums, 1, 33)
				o, err5 := r.reduced(colligo.Complex64, sums, 1, 100)
				if two, flat := r.twoLevels(); two != n+m+k+l+o || flat != 0 {
					err = errors.Join(err, fmt.Errorf("%d of %d went in two levels, %d in one", two, n+m+k+l+o, flat))
				}
				return errors.Join(err, err2, err3, err4, err5, r.moves(colligo.Float32), r.messages(colligo.Int64), r.BarrierOn(r.ctx, r.device.Place()))
			})
			require.Positive(t, count(s.Calls(), "ncclAllReduce"))
			require.Contains(t, j.said.String(), "all-reduces go in two levels, by the table")
		})
	}
}

// TestTwoLevelsByTable has the rules decide by bytes, by hosts and by the ranks of each.
func TestTwoLevelsByTable(t *testing.T) {
	two, four := []int{0, 0, 1, 1}, []int{0, 0, 1, 1, 2, 2}
	upTo := func(bytes int, algorithm string) nccl.Rule {
		return nccl.Rule{Coll: plan.AllReduce, MaxBytes: bytes, Algorithm: algorithm}
	}
	for _, c := range []struct {
		name  string
		hosts []int
		rules []nccl.Rule
		want  [2]int // in two levels and flat, of 3 sums of 400 bytes and 2 of 4,000, and a broadcast
	}{
		{"long ones", two, []nccl.Rule{upTo(400, nccl.Flat), upTo(0, nccl.TwoLevel)}, [2]int{2, 4}},
		{"short ones", two, []nccl.Rule{upTo(400, nccl.TwoLevel)}, [2]int{3, 3}},
		{"the first rule decides", two, []nccl.Rule{upTo(400, nccl.TwoLevel), upTo(0, nccl.Flat), upTo(0, nccl.TwoLevel)}, [2]int{3, 3}},
		{"few hosts", four, []nccl.Rule{{Coll: plan.AllReduce, MaxHosts: 2, Algorithm: nccl.TwoLevel}}, [2]int{0, 0}},
		{"few ranks each", two, []nccl.Rule{{Coll: plan.AllReduce, MaxLocal: 1, Algorithm: nccl.TwoLevel}}, [2]int{0, 0}},
		{"for sockets", two, nccl.SocketRules(), [2]int{0, 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			(&job{hosts: c.hosts, rules: c.rules}).run(t, func(r *rank) error {
				sums := []colligo.ReduceOp{colligo.Sum}
				_, err := r.reduced(colligo.Float32, sums, 100, 1000, 100, 1000, 100)
				x, err2 := r.moved(r.numbered(colligo.Float32, 10))
				if err := errors.Join(err, err2, r.Broadcast(r.ctx, x, 0)); err != nil {
					return err
				}
				if two, flat := r.twoLevels(); two != c.want[0] || flat != c.want[1] {
					return fmt.Errorf("%d went in two levels, %d in one", two, flat)
				}
				return nil
			})
		})
	}
	require.Equal(t, "all_reduce ≤4 hosts ≤8 ranks each ≤1 MiB sockets: two_level",
		nccl.Rule{Coll: plan.AllReduce, MaxHosts: 4, MaxLocal: 8, MaxBytes: 1 << 20, Sockets: true, Algorithm: nccl.TwoLevel}.String())
}

// TestTwoLevelsPremultiply sums premultiplied elements of a type for which NCCL has no such sum: in two levels it needs a plain one. In one
// level the call is refused.
func TestTwoLevelsPremultiply(t *testing.T) {
	j := &job{hosts: []int{0, 0, 1, 1}, rules: []nccl.Rule{{Coll: plan.AllReduce, MaxBytes: 100, Algorithm: nccl.TwoLevel}}}
	j.run(t, func(r *rank) error {
		if _, err := r.reduced(colligo.Float8E4M3FN, []colligo.ReduceOp{colligo.PremulSum(2)}, 48, 48); err != nil {
			return err
		}
		x, err := r.moved(r.numbered(colligo.Float8E4M3FN, 1000))
		if err != nil {
			return err
		}
		if err := r.AllReduce(r.ctx, x, colligo.PremulSum(2)); err == nil || !strings.Contains(err.Error(), "PreMulSum Data type must be") {
			return fmt.Errorf("the error in one level is %w", err)
		}
		if two, flat := r.twoLevels(); two != 2 || flat != 0 {
			return fmt.Errorf("%d went in two levels, %d in one", two, flat)
		}
		return nil
	})
}

// TestTwoLevelsNot has everything go in one level where the ranks cannot have two, and says why once, on all ranks alike.
func TestTwoLevelsNot(t *testing.T) {
	for _, c := range []struct {
		name  string
		hosts []int
		apart bool
		says  string
	}{
		{"one host", []int{0, 0, 0, 0}, false, ""},
		{"a rank each", []int{0, 1, 2, 3}, false, ""},
		{"few ranks", []int{0, 0, 1}, false, ""},
		{"uneven", []int{0, 0, 1, 1, 1}, false, "a host has 2 ranks, and another one 3"},
		{"apart", []int{0, 0, 1, 1}, true, "rank 0 does not reach the memory of the other ranks of its host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &job{hosts: c.hosts, rules: always, apart: c.apart}
			s := j.run(t, func(r *rank) error {
				_, err := r.reduced(colligo.Float32, []colligo.ReduceOp{colligo.Sum}, 1, 1000)
				if got := r.Metrics().Carried; got != nil {
					err = errors.Join(err, fmt.Errorf("counts of %v", got))
				}
				return err
			})
			require.Equal(t, 2*len(c.hosts), count(s.Calls(), "ncclAllReduce"))
			const says = "all-reduces between hosts go in one level, by NCCL alone: "
			if c.says == "" {
				require.NotContains(t, j.said.String(), says)
				return
			}
			require.Equal(t, 1, bytes.Count(j.said.Bytes(), []byte(says)))
			require.Contains(t, j.said.String(), says+c.says)
		})
	}
	for text, r := range map[string]nccl.Rule{
		"nccl: rule 0 (broadcast: two_level): there are nccl and two_level for all_reduce": {Coll: plan.Broadcast, Algorithm: nccl.TwoLevel},
		"nccl: rule 0 (all_reduce: ring): there are nccl and two_level for all_reduce":     {Coll: plan.AllReduce, Algorithm: "ring"},
		"nccl: rule 0 (all_reduce: nccl): a bound is negative":                             {Coll: plan.AllReduce, MaxBytes: -1, Algorithm: nccl.Flat},
	} {
		onRanks(t, 1, nccl.Options{Rules: []nccl.Rule{r}}, func(r *rank) error {
			if err := r.sum(); err == nil || !strings.Contains(err.Error(), text) {
				return fmt.Errorf("the error of such a rule is %w", err)
			}
			return nil
		})
	}
}

// TestTwoLevelsCaptured has a graph capture two levels, among what NCCL carries alone. Blocks go in one level.
func TestTwoLevelsCaptured(t *testing.T) {
	s := (&job{hosts: []int{0, 1, 0, 1}, rules: always}).run(t, func(r *rank) error {
		if err := r.captures(); err != nil {
			return err
		}
		before, _ := r.twoLevels()
		err := r.same("a block", []colligo.Tensor{r.numbered(colligo.Int64, 9), r.numbered(colligo.Int64, 300)},
			func(ctx context.Context, ts []colligo.Tensor) error {
				return r.Coalesce(ctx, func(b *pg.Batch) error {
					b.AllReduce(ts[0], colligo.Sum)
					b.AllReduce(ts[1], colligo.Sum)
					return nil
				})
			})
		if two, _ := r.twoLevels(); two != before {
			err = errors.Join(err, fmt.Errorf("%d of a block went in two levels", two-before))
		}
		return err
	})
	for r := range 4 {
		require.Positive(t, s.Captures(r))
	}
}

// TestTwoLevelsRecord looks at what the flight recorder and the metrics have of operations in two levels: what they have of others.
func TestTwoLevelsRecord(t *testing.T) {
	(&job{hosts: []int{0, 0, 1, 1}, rules: always}).run(t, func(r *rank) error {
		x, err := r.moved(r.numbered(colligo.Float32, 1000))
		if err != nil {
			return err
		}
		r.SetTiming(true)
		for range 3 {
			if err := r.AllReduceAsync(r.ctx, x, colligo.Sum).Synchronize(r.ctx); err != nil {
				return err
			}
		}
		if err := r.WaitPending(r.ctx); err != nil {
			return err
		}
		es := r.Dump(flight.DumpOptions{Entries: true}).Entries
		if len(es) != 3 {
			return fmt.Errorf("%d entries: %+v", len(es), es)
		}
		for i, e := range es {
			if e.State != flight.Completed || e.Name != "nccl:all_reduce" || e.Duration <= 0 {
				return fmt.Errorf("entry %d is %+v", i, e)
			}
		}
		if m := r.Metrics().Ops["ALLREDUCE"]; m.Done != 3 || m.Timed != 3 || m.Bytes == 0 {
			return fmt.Errorf("the metrics are %+v", m)
		}
		return nil
	})
}

// TestTwoLevelsLate leaves one rank out of a call: of the first host and of the second. The others end with an error that names it, within
// their limit, and close.
func TestTwoLevelsLate(t *testing.T) {
	t.Parallel()
	for _, late := range []int{1, 2} {
		t.Run(fmt.Sprint("rank ", late), func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			(&job{hosts: []int{0, 0, 1, 1}, rules: always, timeout: 8 * time.Second, stops: true}).run(t, func(r *rank) error {
				x, err := r.moved(r.numbered(colligo.Float32, 1000))
				if err != nil {
					return err
				}
				if err := r.AllReduceAsync(r.ctx, x, colligo.Sum).Synchronize(r.ctx); err != nil {
					return err
				}
				if r.Rank() == late {
					for r.Err() == nil {
						time.Sleep(time.Millisecond)
					}
				} else if err := r.AllReduceAsync(r.ctx, x, colligo.Sum).Synchronize(r.ctx); err == nil {
					return errors.New("a call without a rank has ended")
				}
				names := regexp.MustCompile(fmt.Sprintf("rank %d has not entered after|do(es)? not answer after", late)) // a busy machine's ranks are slow
				if err := r.Err(); !errors.Is(err, colligo.ErrTimeout) || !names.MatchString(err.Error()) {
					return fmt.Errorf("the group's error is %w", err)
				}
				return nil
			})
			require.Less(t, time.Since(begin), time.Minute/2)
		})
	}
}

// TestTwoLevelsFail has the library meet an error in the background, which every rank hears of, and a call between the hosts fail.
func TestTwoLevelsFail(t *testing.T) {
	t.Parallel()
	for name, hurt := range map[string]func(s *ncclsim.Sim){
		"background": func(s *ncclsim.Sim) { s.Break(1, nccl.RemoteError) },
		"call":       func(s *ncclsim.Sim) { s.Fail("ncclAllReduce", nccl.SystemError) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ready sync.WaitGroup
			ready.Add(4)
			(&job{hosts: []int{0, 0, 1, 1}, rules: always, stops: true}).run(t, func(r *rank) error {
				x, err := r.moved(r.numbered(colligo.Float32, 1000))
				if err != nil {
					return err
				}
				if err := r.AllReduceAsync(r.ctx, x, colligo.Sum).Synchronize(r.ctx); err != nil {
					return err
				}
				ready.Done()
				ready.Wait()
				if r.Rank() == 0 {
					hurt(r.sim)
				}
				for err == nil {
					err = r.AllReduceAsync(r.ctx, x, colligo.Sum).Synchronize(r.ctx)
				}
				if !strings.Contains(err.Error(), "ncclRemoteError") && !strings.Contains(err.Error(), "ncclSystemError") {
					return fmt.Errorf("the error is %w", err)
				}
				return nil
			})
		})
	}
}
