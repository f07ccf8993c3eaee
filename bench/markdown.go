package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// markdown returns a comparison as docs/performance.md has it: the machine, the command, a table of ratios, and a table of
// times with their spread.
func markdown(o *options, records []record, command string) string {
	var b strings.Builder
	name := o.compare
	for _, r := range records {
		if r.Peer != "" {
			name = r.Peer
		}
	}
	fmt.Fprintf(&b, "Machine: %s. colligo over %s beside %s, a batch of each by turns; medians of the batches.\n\n    %s\n\n", machineName(),
		records[0].Transport, name, command)
	b.WriteString(ratioTable(o, records))
	fmt.Fprintf(&b, "\n| | ranks | bytes | algorithm | colligo µs | min-max | %s µs | min-max | ratio |\n|---|---|---|---|---|---|---|---|---|\n", o.compare)
	for _, r := range records {
		theirs := "| | |"
		if r.Ratio != nil && r.PeerTimeUS != nil {
			theirs = fmt.Sprintf("%s | %s-%s | %.2f |", digits(*r.PeerTimeUS), digits(*r.PeerMinUS), digits(*r.PeerMaxUS), *r.Ratio)
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s-%s | %s\n", caseName(r), r.Ranks, formatSize(r.Bytes), r.Algo, digits(r.TimeUS), digits(r.MinUS),
			digits(r.MaxUS), theirs)
	}
	return b.String()
}

// ratioTable has a line for each case and number of ranks, and a column for each size.
func ratioTable(o *options, records []record) string {
	var lines []string
	cells := map[string]map[int]string{}
	var columns []int
	for _, r := range records {
		line := fmt.Sprintf("%s, %d ranks", caseName(r), r.Ranks)
		if cells[line] == nil {
			lines = append(lines, line)
			cells[line] = map[int]string{}
		}
		if !slices.Contains(columns, r.Bytes) {
			columns = append(columns, r.Bytes)
		}
		if r.Ratio != nil {
			cells[line][r.Bytes] = fmt.Sprintf("%.2f", *r.Ratio)
		}
	}
	slices.Sort(columns)
	var b strings.Builder
	fmt.Fprintf(&b, "| time(%s) / time(colligo) |", o.compare)
	for _, n := range columns {
		fmt.Fprintf(&b, " %s |", formatSize(n))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, line := range lines {
		fmt.Fprintf(&b, "| %s |", line)
		for _, n := range columns {
			fmt.Fprintf(&b, " %s |", cells[line][n])
		}
		b.WriteString("\n")
	}
	return b.String()
}

// caseName names what is measured, without the usual type and reduction.
func caseName(r record) string {
	name := r.Collective
	if r.DType != "float32" && r.DType != "none" {
		name += " " + r.DType
	}
	if r.Op != "sum" && r.Op != "none" {
		name += " " + r.Op
	}
	return name
}

// digits prints three digits, or all before the point.
func digits(us float64) string {
	switch {
	case us < 10:
		return strconv.FormatFloat(us, 'f', 2, 64)
	case us < 100:
		return strconv.FormatFloat(us, 'f', 1, 64)
	}
	return strconv.FormatFloat(us, 'f', 0, 64)
}

// commandLine is how the program is called for a table, without the flags that are only for the processes of one run.
func commandLine(args []string) string {
	var kept []string
	for i := 0; i < len(args); i++ {
		if i+2 < len(args) && args[i] == "-device" && args[i+2] == "-json" {
			break // what follows was added for the processes
		}
		kept = append(kept, args[i])
	}
	return "go run ./bench " + strings.Join(kept, " ")
}

// machineName is the processor and how many cores this process may use.
func machineName() string {
	name := runtime.GOARCH
	info, _ := os.ReadFile("/proc/cpuinfo") // where there is none, the architecture says it
	for line := range strings.Lines(string(info)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
			name = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%s, %d cores", name, runtime.NumCPU())
}
