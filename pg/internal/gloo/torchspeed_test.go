//go:build unix

package gloo_test

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	speed     = flag.Int("speed", 0, "turns between jobs of PyTorch, with one rank in Go, and in Go alone, whose times TestTorchSpeed compares")
	speedOnly = flag.String("speed.only", "", "a regular expression of the operations that TestTorchSpeed measures, each a name and its bytes: all_reduce 1048576")
)

// speedJobs are the jobs that TestTorchSpeed compares, by the ranks in Go.
var speedJobs = []struct {
	name string
	inGo func(rank int) bool
}{
	{"PyTorch", noneInGo},
	{"one in Go", func(r int) bool { return r == 1 }},
	{"all in Go", func(int) bool { return true }},
}

// TestTorchSpeed prints what a call takes in jobs with ranks in Go, as a multiple of what it takes in jobs of PyTorch alone. The jobs
// take turns. A rank's time is the median of its laps of calls, and a turn's time that of its slowest rank. Each number is the median of
// the turns. It is run by hand, on a machine that has nothing else to do.
func TestTorchSpeed(t *testing.T) {
	if *speed == 0 {
		t.Skip("-speed says how many turns to measure")
	}
	torches, err := server.find()
	require.NoError(t, err)
	require.NotEmpty(t, torches, "no Python with PyTorch here")
	for _, p := range torches {
		for _, size := range []int{2, 4} {
			t.Run(fmt.Sprintf("PyTorch %s, %d ranks", p.version, size), func(t *testing.T) { compareSpeed(t, p, size) })
		}
	}
}

// speedOps are the operations that are measured, with fewer laps where tensors are longer.
func speedOps(t *testing.T) (ops []string, lengths []int) {
	only, err := regexp.Compile(*speedOnly)
	require.NoError(t, err)
	for _, name := range []string{"all_reduce", "broadcast"} {
		for n := 1; n <= 16<<20; n *= 8 {
			if !only.MatchString(fmt.Sprint(name, " ", 4*n)) {
				continue
			}
			laps := min(100, max(5, 4<<20/n))
			ops = append(ops, fmt.Sprintf("time_%s float32 %d %d sum %d", name, n, laps, len(ops)))
			lengths = append(lengths, 4*n)
		}
	}
	return ops, lengths
}

func compareSpeed(t *testing.T, p *torch, size int) {
	ops, lengths := speedOps(t)
	took := map[string][][]float64{} // by kind and operation, a number for each turn
	for range *speed {
		for _, k := range speedJobs {
			j := &job{torch: p, size: size, inGo: k.inGo, ops: ops}
			took[k.name] = append(took[k.name], j.times(t))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n| operation | bytes | %s, µs |", speedJobs[0].name)
	for _, k := range speedJobs[1:] {
		fmt.Fprintf(&b, " %s |", k.name)
	}
	b.WriteString("\n|---|---|---|---|---|\n")
	for i, op := range ops {
		base := median(took[speedJobs[0].name], i)
		fmt.Fprintf(&b, "| %s | %d | %.0f |", strings.TrimPrefix(strings.Fields(op)[0], "time_"), lengths[i], base*1e6)
		for _, k := range speedJobs[1:] {
			fmt.Fprintf(&b, " %.2f |", median(took[k.name], i)/base)
		}
		b.WriteString("\n")
	}
	t.Log(b.String())
}

// times runs a job of operations that measure, and returns the seconds that each took at its slowest rank.
func (j *job) times(t *testing.T) []float64 {
	t.Helper()
	slowest := make([]float64, len(j.ops))
	for _, of := range j.results(t) {
		for i, op := range j.ops {
			seconds, err := strconv.ParseFloat(strings.Fields(of[op])[2], 64)
			require.NoError(t, err)
			slowest[i] = max(slowest[i], seconds)
		}
	}
	return slowest
}

func median(turns [][]float64, i int) float64 {
	var all []float64
	for _, turn := range turns {
		all = append(all, turn[i])
	}
	slices.Sort(all)
	return all[len(all)/2]
}
