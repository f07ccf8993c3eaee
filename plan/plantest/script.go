package plantest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/colligo-go/colligo/plan"
)

var rewrite = flag.Bool("rewrite", false, "write what script files get into them in place of comparing")

// Script runs a script file of stanzas, with an empty line between them. Each has comments (#), a command, a line of dashes
// and the output on record. The commands are
//
//	plan SHAPE     print the plans of all ranks of a shape written with "size N" in the place of "rank R/N", the
//	               planner's, then their rounds
//	cost SHAPE     print the cost of each rank and the rounds
//	check          check the plans on the lines that follow the command, one rank a line
//	check in place the same with In and Out in the same memory
//	parse          parse the plans on the lines that follow and print them
//
// With -rewrite the file is written anew with the output of today.
func Script(t *testing.T, path string, planner plan.Planner) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for i, stanza := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		input, _, found := strings.Cut(stanza, "\n----")
		if !found {
			t.Fatalf("%s: stanza %d has no line of dashes", path, i)
		}
		if !strings.HasPrefix(input, "#") {
			t.Errorf("%s: no comment says why stanza %d is there", path, i)
		}
		if i > 0 {
			got.WriteByte('\n')
		}
		fmt.Fprintf(&got, "%s\n----\n%s\n", input, execute(planner, input))
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	compareLines(t, path, got.String(), string(text))
}

func compareLines(t *testing.T, path, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("%s:%d: got\n%s\nwant\n%s\n(-rewrite records what it got)", path, i+1, line(g, i), line(w, i))
		}
	}
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(end)"
}

// execute returns the output of one command.
func execute(planner plan.Planner, input string) string {
	lines := strings.Split(input, "\n")
	for len(lines) > 1 && strings.HasPrefix(lines[0], "#") {
		lines = lines[1:]
	}
	var out []string
	var err error
	switch command, shape, _ := strings.Cut(lines[0], " "); {
	case command == "plan" || command == "cost":
		out, err = executePlan(planner, shape, command == "cost")
	case command == "check":
		out, err = executeCheck(lines[1:], shape == "in place")
	case command == "parse":
		for _, l := range lines[1:] {
			p, err := plan.Parse(l)
			if err != nil {
				out = append(out, err.Error())
			} else {
				out = append(out, p.String())
			}
		}
	default:
		err = fmt.Errorf("unknown command %q", lines[0])
	}
	if err != nil {
		out = append(out, err.Error())
	}
	return strings.Join(out, "\n")
}

func executePlan(planner plan.Planner, text string, cost bool) (out []string, err error) {
	s, err := plan.ParseShape(strings.Replace(text, " size ", " rank 0/", 1))
	if err != nil {
		return nil, err
	}
	plans, err := Plans(planner, s)
	if err != nil {
		return nil, err
	}
	for r, p := range plans {
		if cost {
			out = append(out, fmt.Sprintf("rank %d: %v", r, p.Cost()))
		} else {
			out = append(out, p.String())
		}
	}
	return append(out, fmt.Sprintf("%d rounds", plan.Rounds(plans))), Prove(plans)
}

func executeCheck(lines []string, inPlace bool) (out []string, err error) {
	plans := make([]*plan.Plan, len(lines))
	for i, l := range lines {
		if l == "none" {
			continue
		}
		if plans[i], err = plan.Parse(l); err != nil {
			return nil, err
		}
	}
	check := plan.Check
	if inPlace {
		check = plan.CheckInPlace
	}
	if err := check(plans); err != nil {
		return nil, err
	}
	return []string{"ok"}, nil
}
