package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
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
	for _, transport := range o.transports {
		for _, ranks := range o.ranks {
			all = append(all, o.benchUnits(both("bench"), ranks, transport)...)
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

// benchUnits are all sizes of all collectives.
func (o *options) benchUnits(programs [2]string, ranks, transport string) []*unit {
	var all []*unit
	for _, coll := range o.collectives {
		for _, size := range o.sizes {
			all = append(all, o.benchUnit(programs, coll, ranks, transport, size))
		}
	}
	return all
}

// benchUnit is one size of one collective of the program bench. The results are not checked, which other tests do.
func (o *options) benchUnit(programs [2]string, coll, ranks, transport, size string) *unit {
	name := fmt.Sprintf("%s %s, %s ranks, %s", coll, size, ranks, transport)
	u := &unit{name: name, programs: programs}
	u.args = append([]string{coll, "-ranks", ranks, "-transport", transport, "-b", size, "-e", size, "-check=false", "-json"}, o.extra...)
	if o.n != "" {
		u.args = append(u.args, "-n", o.n)
	}
	u.only = func(string) *unit { return u }
	u.read = func(out string) map[string]float64 {
		times := map[string]float64{}
		for line := range strings.Lines(out) {
			var row struct {
				Time float64 `json:"time_us"`
			}
			if json.Unmarshal([]byte(line), &row) == nil && row.Time > 0 {
				times[name] = row.Time
			}
		}
		return times
	}
	return u
}
