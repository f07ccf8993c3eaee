package kernels_test

import (
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/kernels"
)

var bandwidth = flag.Int("bandwidth", 0, "print the table of docs/performance.md, each number the best of so many turns")

// work is one call whose time is measured, of n bytes in the operand that counts.
type work struct {
	set, what string
	bytes     int
	run       func(dst, src []byte)
}

// works lists what a bandwidth is measured of. Reductions are in place: two operands are read, one is written.
func works(set string) []work {
	var all []work
	add := func(what string, run func(dst, src []byte)) { all = append(all, work{set: set, what: what, run: run}) }
	everyKernel(func(d colligo.DType, op colligo.OpKind, _ *kernels.Kernel) {
		k := kernels.LookupIn(set, d, op)
		name := fmt.Sprintf("dtype=%v/op=%v", d, op)
		bitwise := op == colligo.KindBAnd || op == colligo.KindBOr || op == colligo.KindBXor
		switch {
		case d.Real() != d || strings.HasPrefix(d.String(), "float8") || d == colligo.Uint32 || d == colligo.Uint64 || d == colligo.Int16:
			return // their loops are those of other types, or Go's
		case op == colligo.KindAvg:
			add(name, func(dst, src []byte) { k.Finish(dst, src, 3) })
		case op == colligo.KindPremulSum:
			add(name, func(dst, src []byte) { k.Scale(dst, src, 1) })
		case !bitwise || d == colligo.Uint8:
			add(name, func(dst, src []byte) { k.Reduce(dst, dst, src) })
		}
	})
	for _, d := range []colligo.DType{colligo.Float32, colligo.BFloat16} {
		k := kernels.LookupIn(set, d, colligo.KindSum)
		operands := make([][]byte, 4)
		add(fmt.Sprintf("dtype=%v/op=sum of 4", d), func(dst, src []byte) {
			for i := range operands {
				operands[i] = src
			}
			k.Fold(dst, operands, 1)
		})
	}
	return all
}

func memcpy(dst, src []byte) { copy(dst, src) }

// BenchmarkVectors measures every loop of every instruction set of this machine, and memcpy beside them.
func BenchmarkVectors(b *testing.B) {
	all := []work{{set: "go", what: "dtype=uint8/op=memcpy", run: memcpy}}
	for _, set := range kernels.InstructionSets() {
		all = append(all, works(set)...)
	}
	for _, n := range []int{16 << 10, 256 << 10, 16 << 20} {
		dst, src := small(n), small(n)
		for _, w := range all {
			b.Run(fmt.Sprintf("set=%s/%s/bytes=%d", w.set, strings.ReplaceAll(w.what, " ", "-"), n), func(b *testing.B) {
				b.SetBytes(int64(n))
				for b.Loop() {
					w.run(dst, src)
				}
			})
		}
	}
}

// TestBandwidth prints the table. Each turn measures every cell once, so that what else the machine does falls on all alike;
// the best turn counts.
func TestBandwidth(t *testing.T) {
	if *bandwidth == 0 {
		t.Skip("go test ./kernels -run TestBandwidth -bandwidth 20 prints a table")
	}
	sizes := []int{16 << 10, 256 << 10, 16 << 20}
	sets := kernels.InstructionSets()
	rows := []string{"memcpy"}
	cells := map[string][]work{"memcpy": {{run: memcpy}}}
	for _, set := range sets {
		for _, w := range works(set) {
			if cells[w.what] == nil {
				rows = append(rows, w.what)
			}
			cells[w.what] = append(cells[w.what], w)
		}
	}
	best := map[string]float64{}
	for range *bandwidth {
		for _, n := range sizes {
			dst, src := small(n), small(n)
			for _, row := range rows {
				for i, w := range cells[row] {
					key := fmt.Sprint(row, n, i)
					best[key] = max(best[key], rate(w.run, dst, src))
				}
			}
		}
	}
	var table strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&table, "| %s ", strings.NewReplacer("dtype=", "", "/op=", " ").Replace(row))
		for _, n := range sizes {
			for i := range sets {
				if i >= len(cells[row]) {
					table.WriteString("| ")
					continue
				}
				fmt.Fprintf(&table, "| %s ", digits(best[fmt.Sprint(row, n, i)]))
			}
		}
		table.WriteString("|\n")
	}
	fmt.Printf("| GB/s of %v, at %v bytes |\n%s", sets, sizes, table.String())
}

// digits prints two significant digits, or whole numbers.
func digits(v float64) string {
	return fmt.Sprintf("%.*f", max(0, 1-int(math.Floor(math.Log10(v)))), v)
}

// rate is the bandwidth of about half a millisecond of calls, in GB/s.
func rate(run func(dst, src []byte), dst, src []byte) float64 {
	calls := 0
	start := time.Now()
	for time.Since(start) < 500*time.Microsecond {
		for range max(1, (64<<10)/len(dst)) {
			run(dst, src)
			calls++
		}
	}
	return float64(len(dst)) * float64(calls) / float64(time.Since(start).Nanoseconds())
}
