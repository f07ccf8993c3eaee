package trace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/colligo-go/colligo/pg/flight"
)

// oneLine makes spaces of control characters. Names come from dumps: what is in them neither begins another line of the report nor
// tells a terminal what to do.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// Texts of a dump may be very long, and one text may stand in each of its operations. These are the longest that are printed.
const (
	mostName  = 256     // letters of a name, or of what an operation works on
	mostPath  = 4 << 10 // of a file's path, of which the end counts
	mostText  = 1 << 10 // of a finding, where it stands beside each of its operations
	mostWords = 8 << 10 // of a line of a report
)

// clip shortens a text to its beginning, its end, and its length.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most / 8
	return strings.ToValidUTF8(s[:most-end], "") + "... (" + strconv.Itoa(len(s)) + " bytes) ..." + strings.ToValidUTF8(s[len(s)-end:], "")
}

// clipName shortens a name.
func clipName(s string) string { return clip(s, mostName) }

// count is a number of things.
func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return strconv.Itoa(n) + " " + of + "s"
}

// ranksText names ranks, runs of them as "0-3".
func ranksText(ranks []int) string {
	if len(ranks) == 0 {
		return "no ranks"
	}
	ranks = slices.Clone(ranks)
	slices.Sort(ranks)
	var parts []string
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		part := strconv.Itoa(ranks[i])
		switch {
		case j == i+1:
			part += ", " + strconv.Itoa(ranks[j])
		case j > i:
			part += "-" + strconv.Itoa(ranks[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	if len(ranks) == 1 {
		return "rank " + parts[0]
	}
	return "ranks " + strings.Join(parts, ", ")
}

// verb is the form of a word for one rank or several: "waits" or "wait".
func verb(ranks []int, one, many string) string {
	if len(ranks) == 1 {
		return one
	}
	return many
}

// label names a group.
func label(name, desc string) string {
	name, desc = clipName(name), clipName(desc)
	if desc == "" || desc == name || desc == "undefined" {
		return "group " + name
	}
	return fmt.Sprintf("group %s (%s)", name, desc)
}

// opName is an operation's name without the backend before it.
func opName(profiling string) string {
	_, op, ok := strings.Cut(profiling, ":")
	if !ok {
		op = profiling
	}
	return clipName(op)
}

// shapes describes the tensors of one side.
func shapes(sizes [][]int64) string {
	const most = 3
	parts := make([]string, 0, most+1)
	for i, s := range sizes {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(sizes)-most))
			break
		}
		parts = append(parts, fmt.Sprint(s))
	}
	return clipName(strings.Join(parts, " "))
}

// tensors describes what an operation works on, such as "float32 [2 3]", or "float32 [4] -> [8]" where output and input differ.
func tensors(e *flight.Entry) string {
	in, out := shapes(e.InSizes), shapes(e.OutSizes)
	switch {
	case in == "" || in == out:
		in = out
	case out != "":
		in += " -> " + out
	}
	return strings.TrimSpace(dtype(e) + " " + in)
}

// dtype is the element type of an operation by the name that errors have, "" where it has no tensors.
func dtype(e *flight.Entry) string {
	for _, types := range [][]string{e.InTypes, e.OutTypes} {
		if len(types) > 0 {
			return clipName(flight.TypeOf(types[0]))
		}
	}
	return ""
}

// describe names an operation: "all_reduce #17 (float32 [2 3])", "send 0->1 (uint8 [8])", with a tag that is not 0.
func describe(e *flight.Entry) string {
	s := opName(e.Name)
	if !e.P2P {
		s += fmt.Sprintf(" #%d", e.Seq)
	}
	t := tensors(e)
	if e.Tagged && e.Tag != 0 {
		t += fmt.Sprintf(", tag %d", e.Tag)
	}
	if t = strings.TrimPrefix(t, ", "); t != "" {
		s += " (" + t + ")"
	}
	return s
}

// clock is a time of day, in nanoseconds since 1970.
func clock(ns int64) string { return time.Unix(0, ns).UTC().Format("15:04:05.000 UTC") }

// duration rounds to what one can read.
func duration(ns int64) string {
	d := time.Duration(ns)
	for unit := time.Second; unit > time.Nanosecond; unit /= 1000 {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}
