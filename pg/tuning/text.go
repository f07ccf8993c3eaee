package tuning

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// exactBytes prints a size with a unit, and without one where rounding would change it.
func exactBytes(n int) string {
	if text := colligo.FormatBytes(int64(n)); !strings.Contains(text, ".") {
		return text
	}
	return fmt.Sprintf("%d B", n)
}

// Format writes a table as lines, one rule each, in the form of Rule.String.
func Format(table []Rule) string {
	var b strings.Builder
	for _, l := range table {
		b.WriteString(l.String() + "\n")
	}
	return b.String()
}

// Digest tells tables apart: the number of rules and a checksum of their text. It is empty for the default table.
func Digest(table []Rule) string {
	if slices.Equal(table, Default()) {
		return ""
	}
	return fmt.Sprintf("%d rules, checksum %08x", len(table), crc32.ChecksumIEEE([]byte(Format(table))))
}

// Parse reads a table that Format or bench -tune wrote. Empty lines, and lines that begin with #, say nothing. Lanes may be
// left out.
func Parse(text string) ([]Rule, error) {
	table, n := []Rule{}, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		l, err := parseRule(line)
		if err == nil {
			err = Check([]Rule{l})
		}
		if err != nil {
			return nil, fmt.Errorf("line %d, %q: %w", n, line, err)
		}
		table = append(table, l)
	}
	return table, nil
}

// ParseAlgorithms reads a table on one line, such as "all_reduce:ring,broadcast:chain": the algorithm of each collective named, for
// all groups and sizes. Its error for a name that is unknown lists those that there are. Prefer puts the result before a table.
func ParseAlgorithms(text string) (map[string]string, error) {
	all := map[string]string{}
	for _, one := range strings.Split(text, ",") {
		coll, algo, found := strings.Cut(strings.TrimSpace(one), ":")
		if !found {
			return nil, fmt.Errorf("%q names no algorithm: want COLLECTIVE:ALGORITHM, separated by commas", one)
		}
		c, err := plan.ParseColl(coll)
		if names := collectives(); err != nil || !slices.Contains(names, coll) {
			return nil, fmt.Errorf("there is no collective %q with algorithms; there are %s", coll, strings.Join(names, ", "))
		}
		if _, err := Planner(c, algo); err != nil {
			return nil, err
		}
		if was, twice := all[coll]; twice {
			return nil, fmt.Errorf("%s is named twice, with %s and %s", coll, was, algo)
		}
		all[coll] = algo
	}
	return all, nil
}

// collectives lists the names of those that have algorithms.
func collectives() (names []string) {
	for c := plan.AllReduce; c <= plan.Barrier; c++ {
		if planners(c) != nil {
			names = append(names, c.String())
		}
	}
	return names
}

// parseRule reads one line, such as "all_reduce shm ranks 2-4 crowded up to 4 KiB: direct, lanes 1".
func parseRule(line string) (Rule, error) {
	where, what, found := strings.Cut(line, ": ")
	if !found {
		return Rule{}, fmt.Errorf("no colon before the algorithm")
	}
	words := strings.Fields(where)
	c, err := plan.ParseColl(words[0])
	if err != nil {
		return Rule{}, err
	}
	l := Rule{Coll: c}
	for words = words[1:]; len(words) > 0 && err == nil; {
		words, err = l.condition(words)
	}
	for i, part := range strings.Split(what, ", ") {
		if err != nil {
			break
		}
		err = l.choice(i, strings.Fields(part))
	}
	return l, err
}

// condition reads the first condition of some words, and returns the words after it.
func (l *Rule) condition(words []string) (rest []string, err error) {
	switch {
	case words[0] == "ranks" && len(words) > 1:
		low, high, _ := strings.Cut(words[1], "-")
		if l.MinSize, err = strconv.Atoi(low); err == nil && high != "" {
			l.MaxSize, err = strconv.Atoi(high)
		}
		return words[2:], err
	case words[0] == "up" && len(words) > 3 && words[1] == "to":
		l.MaxBytes, err = parseBytes(words[2:4])
		return words[4:], err
	case words[0] == "over" && len(words) > 2:
		l.OverBytes, err = parseBytes(words[1:3])
		return words[3:], err
	case words[0] == Enough.String():
		l.Cores = Enough
	case words[0] == Crowded.String():
		l.Cores = Crowded
	case words[0] == Spare.String():
		l.Cores = Spare
	case slices.Contains(media, words[0]):
		l.Medium = words[0]
	default:
		return nil, fmt.Errorf("%q is no condition: there are %s, ranks, %v, %v, %v, over, up to", words[0], strings.Join(media, ", "),
			Enough, Crowded, Spare)
	}
	return words[1:], nil
}

// media are the media that a rule may name.
var media = []string{"shm", "tcp", "sim", "gloo"}

// choice reads part i of what a rule chooses: the algorithm, then lanes and chunks.
func (l *Rule) choice(i int, words []string) (err error) {
	switch {
	case i == 0 && len(words) == 1:
		l.Algo = words[0]
	case len(words) == 2 && words[0] == "lanes":
		if l.Lanes, err = strconv.Atoi(words[1]); l.Lanes == 1 {
			l.Lanes = 0 // which means the same
		}
	case len(words) == 4 && words[0] == "chunks" && words[1] == "of":
		l.ChunkBytes, err = parseBytes(words[2:])
	default:
		err = fmt.Errorf("%q is neither an algorithm, nor lanes, nor chunks", strings.Join(words, " "))
	}
	return err
}

// parseBytes reads a number and a unit.
func parseBytes(words []string) (int, error) {
	n, err := strconv.Atoi(words[0])
	shift := 10 * slices.Index([]string{"B", "KiB", "MiB", "GiB", "TiB"}, words[1])
	if err != nil || n < 0 || shift < 0 || n<<shift>>shift != n {
		return 0, fmt.Errorf("%q is no size: want a whole number of B, KiB, MiB, GiB or TiB", strings.Join(words, " "))
	}
	return n << shift, nil
}
