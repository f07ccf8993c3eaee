//go:build unix

package gloo_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTorchLater runs what only later versions have, on more types and lengths than the matrix. These are averages, reduce_scatter of
// lists, and all_to_all of lists. Every mix of 3 ranks has them.
func TestTorchLater(t *testing.T) {
	eachTorch(t, func(t *testing.T, p *torch) {
		if !p.has(2, 8) {
			t.Skipf("PyTorch %s has neither averages nor reduce_scatter of lists", p.version)
		}
		l := &opList{torch: p, size: 3}
		l.later()
		l.mixes(t, nil)
	})
}

// TestLaterInGo runs the same operations in a job without a rank of PyTorch. They are known to run, then, before such a version is at
// hand. All ranks have the same sums and averages.
func TestLaterInGo(t *testing.T) {
	l := &opList{torch: &torch{version: "2.12.0"}, size: 3}
	l.later()
	j := &job{torch: l.torch, size: l.size, ops: l.ops, inGo: func(int) bool { return true }}
	all := j.results(t)
	for _, op := range l.ops {
		if strings.HasPrefix(op, "all_reduce ") {
			require.Equal(t, all[0][op], all[1][op], op)
			require.Equal(t, all[0][op], all[2][op], op)
		}
	}
}

// later are operations that only later versions have, and what is to be compared with them.
func (l *opList) later() {
	for _, d := range []string{"float32", "float64", "float16", "bfloat16"} {
		for i, n := range []int{1, 33, 400_001} {
			for _, name := range []string{"all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor"} {
				l.add(name, d, n, i, "avg")
				l.add(name, d, n, i+1, "sum")
				l.add(name, d, n, i+2, "max")
			}
			if l.torch.has(2, 12) {
				l.add("all_to_all", d, n, 0, "sum")
			}
		}
	}
}

// TestTorchLazy has the ranks of PyTorch link when they first have something to say to one another, and introduce themselves by their
// ranks. Every mix of 3 ranks has all operations on short tensors.
func TestTorchLazy(t *testing.T) {
	eachTorch(t, func(t *testing.T, p *torch) {
		if !p.has(2, 8) {
			t.Skipf("the Gloo of PyTorch %s does not link lazily", p.version)
		}
		for _, name := range []string{"TORCH_GLOO_LAZY_INIT", "GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER"} {
			t.Run(name, func(t *testing.T) {
				l := &opList{torch: p, size: 3}
				l.short(1, 33)
				l.mixes(t, map[string]string{name: "1"})
			})
		}
	})
}

// mixes holds jobs with every mix of ranks to one of PyTorch alone. Without -torch it is one mix.
func (l *opList) mixes(t *testing.T, env map[string]string) {
	j := &job{torch: l.torch, size: l.size, inGo: noneInGo, ops: l.ops, env: env}
	want := j.results(t)
	for mix := 1; mix < 1<<l.size; mix++ { // bit r is whether rank r is in Go
		if !*whole && mix != 0b101 {
			continue
		}
		t.Run(fmt.Sprintf("in Go %0*b", l.size, mix), func(t *testing.T) {
			j.equal(t, want, l.ops, func(r int) bool { return mix>>r&1 == 1 })
		})
	}
}
