package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	headLine     = "#%11s %12s %12s %10s %5s %10s %8s %8s %7s %9s %9s"
	rowLine      = "%12d %12d %12s %10s %5d %10s %8.2f %8.2f %7s %9s %9s"
	baselineHead = " %10s %8s %6s"
	baselineLine = " %10s %8.2f %6.2f"
	externalHead = " %10s %9s %9s %8s %6s"
)

// head prints what the table is about and its columns: in the order of nccl-tests, and then the spread.
func (r *report) head() error {
	var b strings.Builder
	fmt.Fprintf(&b, "# colligo bench: %d ranks, %s, transport %s\n", r.options.ranks, r.env.where, r.medium())
	for _, line := range r.method() {
		fmt.Fprintf(&b, "# %s\n", line)
	}
	fmt.Fprintf(&b, headLine, "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "min", "max")
	units := fmt.Sprintf(headLine, "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)")
	if r.env.baseline != nil {
		fmt.Fprintf(&b, baselineHead, "nccl", "busbw", "ratio")
		units += fmt.Sprintf(baselineHead, "(us)", "(GB/s)", "")
	}
	if e := r.env.external; e != nil {
		fmt.Fprintf(&b, externalHead, r.options.compare, "min", "max", "busbw", "ratio")
		units += fmt.Sprintf(externalHead, "(us)", "(us)", "(us)", "(GB/s)", "")
	}
	fmt.Fprintf(&b, "  algorithm\n%s\n", strings.TrimRight(units, " "))
	_, err := fmt.Fprint(r.out, b.String())
	return err
}

// method says how times on GPUs are taken; on the CPU -help does.
func (r *report) method() []string {
	if e := r.env.external; e != nil {
		return []string{fmt.Sprintf("compared with %s: as many processes, a batch of each by turns; times are the median batch's, min and "+
			"max the fastest's and the slowest's; ratio is time(%s) / time(colligo)", e.name, r.options.compare)}
	}
	if r.options.device != onCUDA {
		return nil
	}
	o := r.options
	what, place := "operations", "a process for each"
	if o.graph > 0 {
		what = fmt.Sprintf("launches of a graph of %d operations", o.graph)
	}
	if o.inOneProcess() {
		place = "all in one process"
	}
	if o.ranks > o.machine.devices {
		place += fmt.Sprintf(", on %d devices", o.machine.devices)
	}
	lines := []string{fmt.Sprintf("method: %d loops of %s back to back on one stream, timed by CUDA events; the slowest rank of "+
		"each loop, the median loop; barrier: the host's time. %d ranks, %s", batches, what, o.ranks, place)}
	if o.register {
		with := "colligo"
		if v := r.env.baseline; v != nil && v.noted {
			with = "colligo and NCCL"
		}
		lines = append(lines, "tensors: in memory that is registered with "+with)
	}
	if v := r.env.baseline; v != nil {
		lines = append(lines, fmt.Sprintf("compared with %v, %s=%s: same tensors, same stream, a loop of each by turns; ratio is "+
			"time(NCCL) / time(colligo)", v, nvlsSwitch, v.nvls))
	}
	if r.env.first > 0 {
		lines = append(lines, fmt.Sprintf("first all_reduce on the GPU done %v after the process began", r.env.first.Round(time.Millisecond)))
	}
	return lines
}

// line prints a row, and before the first of a collective its name.
func (r *report) line(rec record, count, root int) error {
	var b strings.Builder
	if n := len(r.records); n < 2 || r.records[n-2].Collective != rec.Collective {
		fmt.Fprintf(&b, "# %s\n", rec.Collective)
	}
	wrong := "N/A"
	if rec.Wrong != nil {
		wrong = strconv.FormatInt(*rec.Wrong, 10)
	}
	fmt.Fprintf(&b, rowLine, rec.Bytes, count, rec.DType, rec.Op, root, microseconds(rec.TimeUS), rec.AlgBW, rec.BusBW, wrong,
		microseconds(rec.MinUS), microseconds(rec.MaxUS))
	switch {
	case r.env.external != nil:
		b.WriteString(externalColumns(rec))
	case rec.Ratio != nil:
		fmt.Fprintf(&b, baselineLine, microseconds(*rec.NCCLTimeUS), *rec.NCCLBusBW, *rec.Ratio)
	case r.env.baseline != nil:
		fmt.Fprintf(&b, baselineHead, "N/A", "N/A", "N/A")
	}
	_, err := fmt.Fprintf(r.out, "%s  %s\n", b.String(), rec.Algo)
	return err
}

// externalColumns are what the library that is compared has shown.
func externalColumns(rec record) string {
	if rec.Ratio == nil {
		return fmt.Sprintf(externalHead, "N/A", "N/A", "N/A", "N/A", "N/A")
	}
	return fmt.Sprintf(externalHead, microseconds(*rec.PeerTimeUS), microseconds(*rec.PeerMinUS), microseconds(*rec.PeerMaxUS),
		fmt.Sprintf("%.2f", *rec.PeerBusBW), fmt.Sprintf("%.2f", *rec.Ratio))
}

// microseconds prints short times with more digits.
func microseconds(us float64) string {
	switch {
	case us < 100:
		return strconv.FormatFloat(us, 'f', 2, 64)
	case us < 1000:
		return strconv.FormatFloat(us, 'f', 1, 64)
	}
	return strconv.FormatFloat(us, 'f', 0, 64)
}

// foot prints the sums.
func (r *report) foot() error {
	var bus float64
	for _, rec := range r.records {
		bus += rec.BusBW
	}
	wrong := "not checked"
	if r.options.verify {
		wrong = strconv.FormatInt(r.wrong, 10)
	}
	_, err := fmt.Fprintf(r.out, "# wrong elements: %s\n# average busbw: %.3f GB/s\n%s", wrong, bus/float64(len(r.records)),
		ratios(r.records))
	return err
}

// ratios returns the line that sums up a comparison, nothing if there was none.
func ratios(records []record) string {
	var low record
	logs, n := 0.0, 0
	for _, rec := range records {
		if rec.Ratio == nil {
			continue
		}
		logs, n = logs+math.Log(*rec.Ratio), n+1
		if low.Ratio == nil || *rec.Ratio < *low.Ratio {
			low = rec
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("# ratio: geometric mean %.2f, lowest %.2f (%s %s %s)\n", math.Exp(logs/float64(n)), *low.Ratio, low.Collective,
		low.DType, formatSize(low.Bytes))
}
