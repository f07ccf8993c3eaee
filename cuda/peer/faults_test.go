package peer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/sim"
)

var everyFault = flag.Bool("peer.faults", false, "run every cell of the table of faults on simulated devices, and print it")

// faults are the columns of the table.
var faults = []string{"killed", "stopped", "delayed", "calls another", "skips one"}

// faultyCall is a call that all ranks repeat, on one line of the table.
type faultyCall struct {
	name  string
	start func(r *rank) []*pg.Work
}

// single makes a list of the works of a call.
func single(w *pg.Work) []*pg.Work { return []*pg.Work{w} }

// faultyCalls are the calls of the table. Rank 0 is the root. Devices take no receive from any rank.
var faultyCalls = []faultyCall{
	{"all_reduce", func(r *rank) []*pg.Work { return single(r.g.AllReduceAsync(r.ctx, r.in(faultyCount), colligo.Sum)) }},
	{"small all_reduce", func(r *rank) []*pg.Work { return single(r.g.AllReduceAsync(r.ctx, r.in(3), colligo.Sum)) }},
	{"broadcast", func(r *rank) []*pg.Work { return single(r.g.BroadcastAsync(r.ctx, r.in(faultyCount), 0)) }},
	{"reduce", func(r *rank) []*pg.Work { return single(r.g.ReduceAsync(r.ctx, r.in(faultyCount), 0, colligo.Sum)) }},
	{"all_gather", func(r *rank) []*pg.Work {
		return single(r.g.AllGatherIntoTensorAsync(r.ctx, r.out(faultyCount*r.g.Size()), r.in(faultyCount)))
	}},
	{"reduce_scatter", func(r *rank) []*pg.Work {
		return single(r.g.ReduceScatterTensorAsync(r.ctx, r.out(faultyCount), r.in(faultyCount*r.g.Size()), colligo.Sum))
	}},
	{"all_to_all", func(r *rank) []*pg.Work {
		n := faultyCount * r.g.Size()
		return single(r.g.AllToAllSingleAsync(r.ctx, r.out(n), r.in(n), nil, nil))
	}},
	{"gather", func(r *rank) []*pg.Work { return single(r.g.GatherAsync(r.ctx, r.parts(1), r.in(faultyCount), 0)) }},
	{"scatter", func(r *rank) []*pg.Work { return single(r.g.ScatterAsync(r.ctx, r.out(faultyCount), r.parts(0), 0)) }},
	{"barrier", func(r *rank) []*pg.Work { return single(r.g.BarrierAsync(r.ctx)) }},
	{"send and recv", func(r *rank) []*pg.Work {
		me, n := r.g.Rank(), r.g.Size()
		return []*pg.Work{r.g.SendAsync(r.ctx, r.in(faultyCount), (me+1)%n, 7), r.g.RecvAsync(r.ctx, r.out(faultyCount), (me+n-1)%n, 7)}
	}},
}

// faultyCount is the elements of a rank's part.
const faultyCount = 9000

func (r *rank) in(n int) colligo.Tensor  { return r.tensor(0, colligo.Float32, 0, n) }
func (r *rank) out(n int) colligo.Tensor { return r.tensor(1, colligo.Float32, 0, n) }

// parts are the tensors of all ranks at the root, in a half of the arena; nil elsewhere.
func (r *rank) parts(half int) (all []colligo.Tensor) {
	for q := range r.g.Size() {
		if r.g.Rank() == 0 {
			all = append(all, r.tensor(half, colligo.Float32, q*faultyCount, faultyCount))
		}
	}
	return all
}

// cell is one fault of one rank in one call.
type cell struct {
	call, other faultyCall
	fault       string
	staged      bool
	net         *sim.Net
	struck      chan time.Time // when the fault happened
	told        chan struct{}  // closed when the survivors have their errors
}

// The ranks of a cell.
const (
	faultyRanks  = 3
	faultyVictim = 1
	faultyLimit  = 8 * time.Second
)

// differs reports whether the victim calls a collective that is not the others'. That is found at once.
func (c *cell) differs() bool {
	return (c.fault == "calls another" || c.fault == "skips one") && c.call.name != "send and recv"
}

// limit is the timeout of the cell's operations. It is so long where it is not waited out that a busy machine is not taken for it.
func (c *cell) limit() time.Duration {
	if c.differs() {
		return time.Minute
	}
	return faultyLimit
}

// repeat makes the call until it fails, with the fault in the victim's third. It returns the error.
func (c *cell) repeat(r *rank, victim func()) error {
	for i := 0; ; i++ {
		start, another := c.call.start, false
		if i == 3 && r.g.Rank() == faultyVictim {
			c.struck <- time.Now()
			switch c.fault {
			case "killed", "stopped":
				victim()
				<-c.told
				return nil
			case "delayed":
				<-c.told
			case "calls another":
				start = c.other.start
			case "skips one":
				start = func(*rank) []*pg.Work { return nil }
			}
		}
		another = c.fault == "skips one"
		for _, f := range []func(*rank) []*pg.Work{start, c.other.start} {
			for _, w := range f(r) {
				if err := w.Synchronize(context.Background()); err != nil {
					return errors.Join(err, r.g.Err())
				}
			}
			if !another {
				break
			}
		}
	}
}

// TestFaults has one of three ranks with simulated devices end, stand still, come late, call something else or leave out a call.
// It does so in each collective and message. Every survivor hears of it within the timeout and a margin, and its error names that rank.
// Without -peer.faults it runs a sample. The whole table:
//
//	go test ./cuda/peer -run 'TestFaults$' -peer.faults -parallel 8 -v
func TestFaults(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	cells := map[string]string{}
	t.Cleanup(func() {
		if *everyFault {
			t.Logf("longest time until a survivor's error, where the timeout is %v\n%s", faultyLimit, faultsTable(cells))
		}
	})
	for i, call := range faultyCalls {
		for j, fault := range faults {
			for k, staged := range []bool{false, true} {
				if !*everyFault && (i+3*j+7*k)%22 != 3 {
					continue
				}
				name := fmt.Sprintf("coll=%s/fault=%s/staged=%v", call.name, fault, staged)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					other := faultyCalls[1] // a small all_reduce
					if i < 2 {
						other = faultyCalls[2]
					}
					c := &cell{call: call, other: other, fault: fault, staged: staged, struck: make(chan time.Time, 1), told: make(chan struct{})}
					took := c.run(t)
					mu.Lock()
					defer mu.Unlock()
					cells[fmt.Sprint(staged, call.name, fault)] = fmt.Sprint(took.Round(time.Millisecond))
				})
			}
		}
	}
}

// faultsTable prints what became of the cells.
func faultsTable(cells map[string]string) string {
	var b strings.Builder
	for staged, title := range map[bool]string{false: "cudasim, peer", true: "cudasim, staged"} {
		fmt.Fprintf(&b, "\n%-18s", title)
		for _, fault := range faults {
			fmt.Fprintf(&b, "%16s", fault)
		}
		for _, call := range faultyCalls {
			fmt.Fprintf(&b, "\n%-18s", call.name)
			for _, fault := range faults {
				text, ok := cells[fmt.Sprint(staged, call.name, fault)]
				if !ok {
					text = "FAILED"
				}
				fmt.Fprintf(&b, "%16s", text)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// run runs the cell and returns how long the last survivor took to know.
func (c *cell) run(t *testing.T) (longest time.Duration) {
	machine := abortable(t, faultyRanks)
	c.net = sim.New(sim.Config{Size: faultyRanks})
	shared := store.NewHash()
	var processes []*cudasim.Process
	for range faultyRanks {
		processes = append(processes, machine.Process())
	}
	done := make(chan error, faultyRanks)
	var survivors sync.WaitGroup
	var mu sync.Mutex
	said := map[int]error{}
	at := map[int]time.Time{}
	survivors.Add(faultyRanks - 1)
	for i := range faultyRanks {
		go func() {
			done <- c.live(t, i, shared, processes[i].Driver(), func(r *rank) error {
				err := c.repeat(r, func() {
					if c.fault == "stopped" {
						c.net.Pause(faultyVictim)
						return
					}
					c.net.Kill(faultyVictim) // first: the dead tell nobody that their driver fails
					processes[faultyVictim].Kill()
				})
				if i == faultyVictim {
					return nil
				}
				mu.Lock()
				said[i], at[i] = err, time.Now()
				mu.Unlock()
				survivors.Done()
				return nil
			})
		}()
	}
	struck := <-c.struck
	survivors.Wait()
	if c.fault == "stopped" {
		c.net.Resume(faultyVictim)
	}
	close(c.told)
	for range faultyRanks {
		<-done // groups that have failed tell what has been said before
	}
	for i, err := range said {
		took := at[i].Sub(struck)
		t.Logf("rank %d after %v: %v", i, took.Round(time.Millisecond), err)
		longest = max(longest, took)
		text := err.Error()
		if !strings.Contains(text, "this rank") {
			text = theTold.ReplaceAllString(text, "")
		}
		require.Contains(t, text, fmt.Sprintf("rank %d", faultyVictim))
		require.Regexp(t, `(all_reduce|broadcast|reduce|all_gather|reduce_scatter|all_to_all|gather|scatter|barrier|send|recv).* #?\d|waits for rank [12]|rank 1: peer lost`, err.Error())
		most := 10 * time.Second
		if *everyFault { // then the machine has nothing else to do
			most = time.Second
		}
		require.Less(t, took, faultyLimit+most)
		if c.differs() {
			require.Less(t, took, c.limit()/2, "it takes some 40 ms; a message that has not come may come until its limit")
		}
		if c.fault == "stopped" {
			require.Regexp(t, "rank 1 does not answer|waits for rank [12]", err.Error())
		}
	}
	return longest
}

// theTold are the parts of an error that name the rank that has found it.
var theTold = regexp.MustCompile(`rank \d reported: | \[rank \d of group 0\]`)

// live is the life of one rank.
func (c *cell) live(t *testing.T, i int, shared store.Store, d *cuda.Driver, f func(*rank) error) error {
	g, err := pg.Init(t.Context(), pg.Config{Store: shared, Size: faultyRanks, Rank: i, Timeout: c.limit(), Recorder: pg.RecorderOptions{DumpOnError: pg.Off},
		Open: func(ctx context.Context, tc *transport.Config) (transport.Mesh, error) {
			return c.net.OpenAs(ctx, i, tc)
		}})
	if err != nil {
		return err
	}
	o := Options{Memory: 24 << 20, Staged: c.staged}
	if o.farewell = time.Minute; c.fault == "killed" {
		o.farewell = time.Second // the others wait it out, and the simulator does not report what they have mapped
	}
	return life(t.Context(), g, d, i, simHalf, o, f)
}
