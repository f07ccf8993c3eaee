package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// unit is a program that both versions have, its arguments, and how its output is read.
type unit struct {
	name     string
	programs [2]string // by version
	args     []string
	read     func(out string) map[string]float64 // times by name, in any unit
	only     func(name string) *unit             // what measures one of its times again
}

// suite returns the units that the options ask for.
func (o *options) suite(dir string) ([]*unit, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var all []*unit
	both := func(name string) [2]string {
		return [2]string{filepath.Join(dir, versions[0], name), filepath.Join(dir, versions[1], name)}
	}
	for _, pkg := range o.packages {
		all = append(all, goUnit(pkg, both(program(pkg)), o.pattern, o.benchtime))
	}
	if len(o.collectives) == 0 {
		return all, nil
	}
	for _, transport := range o.transports {
		for _, ranks := range o.ranks {
			for _, sizes := range o.sizes {
				all = append(all, o.benchUnit(both("bench"), o.collectives, ranks, transport, sizes))
			}
		}
	}
	return all, nil
}

// goBench matches a line of a Go benchmark. The number of processors at the end of its name is left out.
var goBench = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op`)

// goUnit is the Go benchmarks of a package.
func goUnit(pkg string, programs [2]string, pattern, benchtime string) *unit {
	return &unit{
		name: pkg, programs: programs, args: []string{"-test.run", "^$", "-test.bench", pattern, "-test.benchtime", benchtime},
		read: func(out string) map[string]float64 {
			times := map[string]float64{}
			for _, m := range goBench.FindAllStringSubmatch(out, -1) {
				if v, err := strconv.ParseFloat(m[2], 64); err == nil {
					times[pkg+" "+m[1]] = v
				}
			}
			return times
		},
		only: func(name string) *unit {
			return goUnit(pkg, programs, exactly(strings.TrimPrefix(name, pkg+" ")), benchtime)
		},
	}
}

// exactly is the pattern of one benchmark. Each part between slashes is matched on its own.
func exactly(name string) string {
	parts := strings.Split("Benchmark"+name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// benchUnit is a range of sizes of some collectives of the program bench. The results are not checked, which other tests do.
func (o *options) benchUnit(programs [2]string, colls []string, ranks, transport, sizes string) *unit {
	job := fmt.Sprintf("%s ranks, %s", ranks, transport)
	u := &unit{name: fmt.Sprintf("%s %s, %s", strings.Join(colls, " "), sizes, job), programs: programs}
	u.args = append(slices.Clone(colls), "-ranks", ranks, "-transport", transport, "-check=false", "-json")
	least, most, ranged := strings.Cut(sizes, "-")
	most, factor, _ := strings.Cut(most, "*")
	if !ranged {
		most, factor = least, "2"
	}
	u.args = append(u.args, "-b", least, "-e", most, "-f", factor)
	if o.n != "" {
		u.args = append(u.args, "-n", o.n)
	}
	u.args = append(u.args, o.extra...)
	u.read = func(out string) map[string]float64 {
		times := map[string]float64{}
		for line := range strings.Lines(out) {
			var row struct {
				Collective string  `json:"collective"`
				Bytes      int     `json:"bytes"`
				Time       float64 `json:"time_us"`
			}
			if json.Unmarshal([]byte(line), &row) == nil && row.Time > 0 {
				times[fmt.Sprintf("%s %d, %s", row.Collective, row.Bytes, job)] = row.Time
			}
		}
		return times
	}
	u.only = func(name string) *unit {
		what, _, _ := strings.Cut(name, ",")
		coll, size, _ := strings.Cut(what, " ")
		return o.benchUnit(programs, []string{coll}, ranks, transport, size)
	}
	return u
}
