package parity

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda/cudasim/model"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/flight"
)

var alikePrograms = flag.Int("parity.alike", 4, "how many random programs TestAlike runs on each medium")

// TestAlike runs each random program on every medium, and compares its results, errors and records with those on the CPU. A program makes
// groups and has up to five calls under way. Some calls have wrong arguments, which are the same on all ranks. No program has a reduction
// that media round in different ways, or that NCCL lacks.
func TestAlike(t *testing.T) {
	beside(t)
	for seed := range uint64(*alikePrograms) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			beside(t)
			want := alikeOn(t, "cpu", seed)
			for _, medium := range deviceMedia(t, len(want)) {
				for r, got := range alikeOn(t, medium, seed) {
					for i := range min(len(got), len(want[r])) {
						require.Equal(t, want[r][i], got[i], "rank %d of %d on %s", r, len(want), medium)
					}
					require.Len(t, got, len(want[r]), "rank %d on %s", r, medium)
				}
			}
		})
	}
}

// alikeOn runs a program on a medium, and returns what each rank has seen.
func alikeOn(t *testing.T, medium string, seed uint64) [][]string {
	j := newJob(t, medium, 2+int(seed%3))
	if j.machine != nil {
		for _, d := range colligo.DTypes() {
			for k := colligo.KindSum; k <= colligo.KindPremulSum; k++ {
				if _, _, err := k.Check(d); err == nil {
					require.NoError(t, model.RegisterReduction(j.machine, d, k))
				}
			}
		}
	}
	seen := make([][]string, j.size)
	var mu sync.Mutex
	var running sync.WaitGroup
	running.Add(j.size)
	j.run(t, func(m *mortal) {
		a := &alike{mortal: m, seed: seed}
		func() {
			defer running.Done()
			a.run()
		}()
		mu.Lock()
		seen[m.Rank()] = a.seen
		mu.Unlock()
		running.Wait() // a rank that closes waits a second for its peers, and on a busy machine one may come later
	})
	return seen
}

// alike is one rank of a random program.
type alike struct {
	*mortal
	*rand.Rand // of the step, with the same numbers on all ranks
	seed       uint64
	step       int
	seen       []string
	onCPU      bool             // tensors of this step are on the CPU on every medium
	held       []colligo.Tensor // of this step
	groups     []*pg.Group
	open       []*pendingCall
}

// pendingCall is a call that is under way.
type pendingCall struct {
	step  int
	what  string
	w     *pg.Work
	onCPU bool
	held  []colligo.Tensor
}

const alikeSteps = 40

func (a *alike) run() {
	require.NoError(a.t, a.SetTimeout(3*time.Minute)) // beside other tests a rank may need one for a few steps
	a.seen = make([]string, alikeSteps)
	for a.step = range alikeSteps {
		a.Rand = rand.New(rand.NewPCG(a.seed, uint64(a.step)))
		if a.one(10) {
			a.endAll()
			a.seen[a.step] = a.regroup()
			continue
		}
		most := a.IntN(6)
		a.begin()
		for len(a.open) > most {
			i := a.IntN(len(a.open))
			a.end(a.open[i])
			a.open = append(a.open[:i], a.open[i+1:]...)
		}
		if a.gpu != nil && len(a.open) == 0 {
			a.arena.used = 0
		}
	}
	a.endAll()
	require.NoError(a.t, a.Barrier(a.t.Context()))
	a.see(a.Group)
	for _, g := range a.groups {
		if g.IsMember() {
			a.see(g)
		}
	}
}

// one reports true once in so many times.
func (a *alike) one(in int) bool { return a.IntN(in) == 0 }

// begin starts a call in one of the groups.
func (a *alike) begin() {
	r := *a
	r.mortal = &mortal{rank: a.rank, job: a.job}
	if i := a.IntN(2 * (len(a.groups) + 1)); i < len(a.groups) {
		r.rank = a.in(a.groups[i])
		r.arena = a.arena
	}
	if !r.IsMember() {
		return
	}
	r.onCPU, r.held = a.one(5), nil
	what, call := r.random()
	a.open = append(a.open, &pendingCall{a.step, what, call(a.ctx), r.onCPU || a.gpu == nil, r.held})
}

func (a *alike) endAll() {
	for _, o := range a.open {
		a.end(o)
	}
	a.open = nil
}

// devicePlaces are the names of devices in an error.
var devicePlaces = regexp.MustCompile(`cuda:\d|cpu\b`)

// end waits for a call, and notes its error and what its tensors hold.
func (a *alike) end(o *pendingCall) {
	err := o.w.Wait(a.ctx)
	if err == nil {
		err = o.w.Synchronize(context.Background())
	}
	says, hash := "ok", fnv.New64a()
	if err != nil {
		says = devicePlaces.ReplaceAllString(err.Error(), "device")
	}
	for _, x := range o.held {
		if o.onCPU {
			hash.Write(x.CPUBytes())
		} else {
			hash.Write(a.read(x))
		}
	}
	a.seen[o.step] = fmt.Sprintf("%s: %s, %x", o.what, says, hash.Sum64())
}

// regroup makes a group or closes one, and says which.
func (a *alike) regroup() string {
	var g *pg.Group
	var err error
	switch kind := a.IntN(3); {
	case kind == 0:
		ranks := a.Perm(a.Size())[:1+a.IntN(a.Size())]
		g, err = a.NewGroup(a.ctx, ranks)
	case kind == 1:
		g, err = a.SplitByColor(a.ctx, a.Rank()%2, -a.Rank(), pg.GroupOptions{})
	case len(a.groups) > 0:
		i := a.IntN(len(a.groups))
		g = a.groups[i]
		a.groups = append(a.groups[:i], a.groups[i+1:]...)
		return fmt.Sprintf("close %v: %v", g.Ranks(), g.Close())
	default:
		return "nothing"
	}
	require.NoError(a.t, err)
	a.groups = append(a.groups, g)
	return fmt.Sprint("group of ", g.Ranks())
}

// see notes a group's records.
func (a *alike) see(g *pg.Group) {
	for _, e := range g.Dump(flight.DumpOptions{Entries: true}).Entries {
		e.ID, e.Created, e.DiscoveredStarted, e.DiscoveredCompleted, e.Duration, e.ThreadID, e.ThreadName = 0, 0, 0, 0, 0, "", ""
		a.seen = append(a.seen, fmt.Sprintf("%+v", e))
	}
}

// fresh returns a tensor of small whole numbers, which differ from rank to rank.
func (a *alike) fresh(d colligo.DType, n int) colligo.Tensor {
	n = max(n, 0)
	numbers := rand.New(rand.NewPCG(a.seed<<16|uint64(a.step), uint64(a.Rank()<<8|len(a.held))))
	var b bytes.Buffer
	for range n {
		b.Write(small[d][numbers.IntN(3)])
	}
	t := colligo.Bytes(b.Bytes(), d)
	if a.gpu != nil && !a.onCPU {
		t = a.onDevice(t)
	}
	a.held = append(a.held, t)
	return t
}

// small has the numbers 1, 2 and 3 in each element type: 1, 0 and 1 of bool.
var small = func() map[colligo.DType][3][]byte {
	all := map[colligo.DType][3][]byte{}
	for _, d := range colligo.DTypes() {
		var three [3][]byte
		for i := range three {
			three[i] = make([]byte, d.Size())
			three[i][0] = byte(i + 1)
		}
		all[d] = three
	}
	all[colligo.Bool] = [3][]byte{{1}, {0}, {1}}
	all[colligo.Float16] = [3][]byte{{0, 0x3c}, {0, 0x40}, {0, 0x42}}
	all[colligo.BFloat16] = [3][]byte{{0x80, 0x3f}, {0, 0x40}, {0x40, 0x40}}
	all[colligo.Float32] = [3][]byte{bytesOf([]float32{1}), bytesOf([]float32{2}), bytesOf([]float32{3})}
	all[colligo.Float64] = [3][]byte{bytesOf([]float64{1}), bytesOf([]float64{2}), bytesOf([]float64{3})}
	all[colligo.Complex64] = [3][]byte{bytesOf([]complex64{1 - 1i}), bytesOf([]complex64{2 + 2i}), bytesOf([]complex64{3})}
	all[colligo.Complex128] = [3][]byte{bytesOf([]complex128{1 - 1i}), bytesOf([]complex128{2 + 2i}), bytesOf([]complex128{3})}
	return all
}()
