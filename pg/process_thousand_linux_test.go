package pg_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// TestThousandGroups has two processes make, use and close a thousand groups, over TCP fewer. Goroutines, descriptors, mappings, memory and
// the store's keys are what they were after the first hundred.
func TestThousandGroups(t *testing.T) {
	t.Parallel()
	for transport, n := range map[string]int{"shm": 1000, "tcp": 200} {
		t.Run("transport="+transport, func(t *testing.T) {
			t.Parallel()
			needs(t, transport)
			job := launch(t, 2, order{Role: "thousand", Arg: strconv.Itoa(n), Config: config{Transport: transport}}, nil)
			job.all("init")
			for _, p := range job.procs {
				r := p.nextWithin("done", 8*patience)
				require.Empty(t, r.Err)
				p.ends()
			}
			job.tidy()
		})
	}
}

func init() { roles["thousand"] = thousand }

// estate is what a process and the store hold.
type estate struct {
	held held
	heap uint64
	keys int64
}

func takeStock(g *pg.Group) (estate, error) {
	ctx := context.Background()
	if err := g.Barrier(ctx); err != nil {
		return estate{}, err
	}
	keys, err := g.Store().NumKeys(ctx)
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return estate{holdings(), m.HeapAlloc, keys}, err
}

func thousand(_ *process, g *pg.Group, arg string) error {
	const before = 100
	ctx := context.Background()
	n, err := strconv.Atoi(arg)
	if err != nil {
		return err
	}
	all := before + n
	var first estate
	began := time.Now()
	for i := range all {
		if i == before {
			if first, err = takeStock(g); err != nil {
				return err
			}
		}
		if err := makeUseClose(ctx, g); err != nil {
			return fmt.Errorf("group %d: %w", i, err)
		}
	}
	each := time.Since(began) / time.Duration(all)
	last, err := takeStock(g)
	if err != nil {
		return err
	}
	if more := last.held.beyond(first.held); more != nil {
		return fmt.Errorf("left after %d groups, %v each: %s", all-before, each, strings.Join(more, ", "))
	}
	if last.keys > first.keys {
		return fmt.Errorf("the store has %d keys, %d before %d groups", last.keys, first.keys, all-before)
	}
	if room := uint64(1 << 20); last.heap > first.heap+room {
		return fmt.Errorf("%s of heap, %s before %d groups", colligo.FormatBytes(int64(last.heap)), colligo.FormatBytes(int64(first.heap)), all-before)
	}
	return nil
}

func makeUseClose(ctx context.Context, g *pg.Group) error {
	n, err := g.NewGroup(ctx, []int{0, 1})
	if err != nil {
		return err
	}
	if err := n.AllReduce(ctx, colligo.Of(make([]float32, 1000)), colligo.Sum); err != nil {
		return err
	}
	if err := n.Barrier(ctx); err != nil {
		return err
	}
	return n.Close()
}
