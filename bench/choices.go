package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/colligo-go/colligo/cuda/nccl"
	"github.com/colligo-go/colligo/cuda/peer"
	"github.com/colligo-go/colligo/pg/tuning"
	"github.com/colligo-go/colligo/plan"
)

// printChoices prints the tables by which algorithms are picked.
func printChoices(w io.Writer, table []tuning.Rule) error {
	var b strings.Builder
	b.WriteString("# tensors on the CPU: the first line that fits, by the bytes of the whole tensor\n")
	if table == nil {
		table = tuning.Default()
	}
	b.WriteString(tuning.Format(table))
	for _, c := range collectives() {
		if names := tuning.Algorithms(c.coll); len(names) > 0 {
			fmt.Fprintf(&b, "%s else: %s, of %s\n", c.name, names[len(names)-1], strings.Join(names, " "))
		}
	}
	b.WriteString("# tensors on GPUs that reach one another: the first line that fits, by the bytes of a rank's longest part\n")
	for _, c := range peer.DefaultRules() {
		fmt.Fprintln(&b, c)
	}
	b.WriteString("# tensors on GPUs of several hosts that have as many each, where the program gives NCCL's backend nccl.SocketRules: by the bytes of the whole tensor\n")
	for _, c := range nccl.SocketRules() {
		fmt.Fprintln(&b, c)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// print writes the table of what was measured, in the form of the tables' sources.
func (t *timings) print(w io.Writer, r *report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "// Measured by %d ranks, %s, transport %s; element types %s, reductions %s.\n", r.options.ranks,
		r.env.where, r.medium(), r.options.dtypes, r.options.ops)
	for _, c := range t.colls {
		b.WriteString(t.listing(c))
	}
	if r.options.device == onCUDA {
		b.WriteString("return []Rule{\n")
	} else {
		b.WriteString("return []Choice{\n")
	}
	for _, c := range t.colls {
		for _, x := range t.winners(c) {
			if r.options.device == onCUDA {
				b.WriteString(onGPULine(c, r.options.ranks, x))
			} else {
				b.WriteString(onCPULine(c, r.medium(), r.options.ranks, x))
			}
		}
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func onCPULine(c plan.Coll, medium string, ranks int, x winner) string {
	if medium == inProcess {
		medium = "sim"
	}
	return fmt.Sprintf("\t{Coll: %s, Medium: %q, MaxSize: %d,%s Algo: %q},\n", sourceName(c), medium, ranks, sourceBound(x.most),
		x.variant.algo[c.String()])
}

// write adds the table to a file, in the form in which it is read. Runs with more ranks come after those with fewer.
func (t *timings) write(path string, r *report) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, fileMode)
	if err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %d ranks, transport %s, on %s\n", r.options.ranks, r.medium(), machineName())
	cores := tuning.Enough
	if r.options.ranks > runtime.NumCPU() {
		cores = tuning.Crowded
	}
	for _, c := range t.colls {
		for _, x := range t.winners(c) {
			medium := r.medium()
			if medium == inProcess {
				medium = "sim"
			}
			b.WriteString(tuning.Format([]tuning.Rule{{Coll: c, Medium: medium, MaxSize: r.options.ranks, Cores: cores, MaxBytes: x.most,
				Algo: x.variant.algo[c.String()]}}))
		}
	}
	_, err = f.WriteString(b.String())
	return errors.Join(err, f.Close())
}

func onGPULine(c plan.Coll, ranks int, x winner) string {
	for _, l := range x.variant.rules {
		if l.Coll == c {
			registered, tile := "", ""
			if l.Registered {
				registered = " Registered: true,"
			}
			if l.Tile > 0 {
				tile = ", Tile: " + sourceBytes(l.Tile)
			}
			return fmt.Sprintf("\t{Coll: %s, MaxSize: %d,%s%s Algorithm: %s, Blocks: %d, Threads: %d%s},\n", sourceName(c), ranks,
				sourceBound(x.most), registered, l.Algorithm.GoString(), l.Blocks, l.Threads, tile)
		}
	}
	return ""
}

// sourceName returns a collective as Go names it: all_reduce is plan.AllReduce.
func sourceName(c plan.Coll) string {
	s := "plan."
	for word := range strings.SplitSeq(c.String(), "_") {
		s += strings.ToUpper(word[:1]) + word[1:]
	}
	return s
}

func sourceBound(most int) string {
	if most == 0 {
		return ""
	}
	return " MaxBytes: " + sourceBytes(most) + ","
}

// sourceBytes writes a size as 64 << 10 where it is a multiple of a power.
func sourceBytes(n int) string {
	for _, shift := range []int{30, 20, 10} {
		if n >= 1<<shift && n%(1<<shift) == 0 {
			return fmt.Sprintf("%d << %d", n>>shift, shift)
		}
	}
	return fmt.Sprint(n)
}
