package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"text/tabwriter"
)

// table is the times of both versions by name.
type table struct {
	limit float64
	rows  map[string]*row
}

// row is the times of one benchmark.
type row struct {
	unit  *unit        // that has measured it
	times [3][]float64 // of the old version, the new one, and the old one once more; the same index is the same turn
}

// measure runs units by turns, and puts their times in place of earlier ones. The version that begins changes from turn to turn. With a
// control the old version runs twice in each turn.
func (t *table) measure(units []*unit, turns int, control bool, stderr io.Writer) error {
	fresh := map[string]*row{}
	for i, u := range units {
		fmt.Fprintf(stderr, "%d of %d: %s\n", i+1, len(units), u.name)
		for turn := range turns {
			order := []int{0, 1}
			if control {
				order = append(order, 2)
			}
			if turn%2 == 1 {
				slices.Reverse(order)
			}
			if err := u.turn(order, fresh); err != nil {
				return err
			}
		}
	}
	if t.rows == nil {
		t.rows = map[string]*row{}
	}
	maps.Copy(t.rows, fresh)
	if len(t.rows) == 0 {
		return errors.New("the two versions have no benchmark in common")
	}
	return nil
}

// turn runs the versions in an order, and adds to the rows what all of them have measured.
func (u *unit) turn(order []int, rows map[string]*row) error {
	var times [3]map[string]float64
	for _, v := range order {
		out, err := u.run(v % 2) // 2 is the old version once more
		if err != nil {
			return err
		}
		times[v] = u.read(out)
	}
	for name := range times[0] {
		if slices.ContainsFunc(order, func(v int) bool { return times[v][name] == 0 }) {
			continue
		}
		r := rows[name]
		if r == nil {
			r = &row{unit: u}
			rows[name] = r
		}
		for _, v := range order {
			r.times[v] = append(r.times[v], times[v][name])
		}
	}
	return nil
}

// run runs one version's program in its folder.
func (u *unit) run(version int) (string, error) {
	p := u.programs[version]
	return output(filepath.Dir(p), p, u.args...)
}

// beyond returns what measures each slower row again, and says how slow it was.
func (t *table) beyond(stderr io.Writer) []*unit {
	var more []*unit
	for _, name := range slices.Sorted(maps.Keys(t.rows)) {
		if r := t.rows[name]; t.slower(r) {
			fmt.Fprintf(stderr, "%.3f (pairs %.3f): %s\n", r.ratio(1), r.pairs(1), name)
			more = append(more, r.unit.only(name))
		}
	}
	return more
}

// slower reports whether the new version's time is beyond the limit by both ratios. Where a machine has a fast and a slow state, one of them
// alone says little.
func (t *table) slower(r *row) bool { return min(r.ratio(1), r.pairs(1)) > t.limit }

// ratio is a version's median time over the old version's.
func (r *row) ratio(version int) float64 { return median(r.times[version]) / median(r.times[0]) }

// pairs is the median of the ratios within a turn, which the machine's slow minutes do not touch.
func (r *row) pairs(version int) float64 {
	ratios := make([]float64, len(r.times[0]))
	for i := range ratios {
		ratios[i] = r.times[version][i] / r.times[0][i]
	}
	return median(ratios)
}

// control is both ratios of the old version to itself, if it was measured twice.
func (r *row) control() string {
	if len(r.times[2]) == 0 {
		return ""
	}
	return fmt.Sprintf("%.3f %.3f", r.ratio(2), r.pairs(2))
}

func median(of []float64) float64 {
	s := slices.Sorted(slices.Values(of))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// print prints the rows, the slowest first, and returns how many are slower.
func (t *table) print(w io.Writer) (slower int) {
	names := slices.SortedFunc(maps.Keys(t.rows), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.rows[b].ratio(1), t.rows[a].ratio(1)), cmp.Compare(a, b))
	})
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "medians\tpairs\tcontrol\tturns\t\tbenchmark")
	for _, name := range names {
		r, mark := t.rows[name], ""
		if t.slower(r) {
			slower, mark = slower+1, "slower"
		}
		fmt.Fprintf(tw, "%.3f\t%.3f\t%s\t%d\t%s\t%s\n", r.ratio(1), r.pairs(1), r.control(), len(r.times[0]), mark, name)
	}
	tw.Flush()
	fmt.Fprintf(w, "%d of %d are beyond %g\n", slower, len(names), t.limit)
	return slower
}
