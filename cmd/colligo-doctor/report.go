package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// report is the table that the doctor prints: a part of the machine, and beside it what was found. At the end stands what is
// missing, and beside it what to do.
type report struct {
	table   *tabwriter.Writer
	missing []finding
}

// finding is something that the user likely expects and does not have.
type finding struct{ what, do string }

// Widths of the table's columns, in characters.
const (
	partWidth = 10
	padding   = 2
)

func newReport(out io.Writer) report {
	return report{table: tabwriter.NewWriter(out, partWidth, 0, padding, ' ', 0)}
}

// say adds a row behind the name of a part, or one that goes on with the last part. A tab begins a further column.
func (r *report) say(part, format string, args ...any) {
	fmt.Fprintf(r.table, "%s\t%s\n", part, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; "))
}

// show prints the rows so far, so that slow checks do not hold back what is known.
func (r *report) show() { _ = r.table.Flush() } // as with any print, the reader has gone

// miss notes a finding and what to do about it. Anything said twice counts once.
func (r *report) miss(do, format string, args ...any) {
	what := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	for _, f := range r.missing {
		if strings.Contains(f.what, what) {
			return
		}
	}
	r.missing = append(r.missing, finding{what, do})
}

// broken is what to do about an error that only a broken driver gives.
const broken = "look at nvidia-smi and at the kernel's log (dmesg) for errors of the device; reload the driver or restart the machine"

// check notes an error that nothing but a broken driver gives. It reports whether there is none.
func (r *report) check(err error) bool {
	if err != nil {
		r.miss(broken, "%v", err)
	}
	return err == nil
}

// verdict prints what is missing and what to do about it, and returns the exit code.
func (r *report) verdict() int {
	defer r.show()
	if len(r.missing) == 0 {
		r.say("verdict", "nothing is missing")
		return 0
	}
	r.say("verdict", "%d missing", len(r.missing))
	r.show()
	fmt.Fprint(r.table, "\nmissing\twhat to do\n")
	for _, f := range r.missing {
		fmt.Fprintf(r.table, "%s\t%s\n", f.what, f.do)
	}
	return 1
}
