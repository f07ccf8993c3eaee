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
	times [2][]float64 // by version; the same index is the same turn
}

// measure runs units by turns, and puts their times in place of earlier ones. The version that begins changes from turn to turn.
func (t *table) measure(units []*unit, turns int, stderr io.Writer) error {
	fresh := map[string]*row{}
	for i, u := range units {
		fmt.Fprintf(stderr, "%d of %d: %s\n", i+1, len(units), u.name)
		for turn := range turns {
			if err := u.turn(turn%2, fresh); err != nil {
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

// turn runs both versions, the given one first, and adds to the rows what both have measured.
func (u *unit) turn(first int, rows map[string]*row) error {
	var times [2]map[string]float64
	for _, v := range []int{first, 1 - first} {
		out, err := u.run(v)
		if err != nil {
			return err
		}
		times[v] = u.read(out)
	}
	for name, old := range times[0] {
		now, ok := times[1][name]
		if !ok {
			continue
		}
		r := rows[name]
		if r == nil {
			r = &row{unit: u}
			rows[name] = r
		}
		r.times[0], r.times[1] = append(r.times[0], old), append(r.times[1], now)
	}
	return nil
}

// run runs one version's program in its folder.
func (u *unit) run(version int) (string, error) {
	p := u.programs[version]
	return output(filepath.Dir(p), p, u.args...)
}

// beyond returns what measures each slower row again.
func (t *table) beyond() []*unit {
	var more []*unit
	for _, name := range slices.Sorted(maps.Keys(t.rows)) {
		if r := t.rows[name]; t.slower(r) {
			more = append(more, r.unit.only(name))
		}
	}
	return more
}

// slower reports whether the new version's time is beyond the limit by both ratios. Where a machine has a fast and a slow state, one of them
// alone says little.
func (t *table) slower(r *row) bool { return min(r.ratio(), r.pairs()) > t.limit }

// ratio is the new version's median time over the old version's.
func (r *row) ratio() float64 { return median(r.times[1]) / median(r.times[0]) }

// pairs is the median of the ratios within a turn, which the machine's slow minutes do not touch.
func (r *row) pairs() float64 {
	ratios := make([]float64, len(r.times[0]))
	for i := range ratios {
		ratios[i] = r.times[1][i] / r.times[0][i]
	}
	return median(ratios)
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
		return cmp.Or(cmp.Compare(t.rows[b].ratio(), t.rows[a].ratio()), cmp.Compare(a, b))
	})
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "medians\tpairs\tturns\t\tbenchmark")
	for _, name := range names {
		r, mark := t.rows[name], ""
		if t.slower(r) {
			slower, mark = slower+1, "slower"
		}
		fmt.Fprintf(tw, "%.3f\t%.3f\t%d\t%s\t%s\n", r.ratio(), r.pairs(), len(r.times[0]), mark, name)
	}
	tw.Flush()
	fmt.Fprintf(w, "%d of %d are beyond %g\n", slower, len(names), t.limit)
	return slower
}
