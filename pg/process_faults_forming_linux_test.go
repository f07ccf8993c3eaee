package pg_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

// The rows and columns of the table of faults while groups form.
var (
	formings      = []string{"init", "new group", "split", "subgroup", "shrink", "regroup"}
	formingFaults = []string{"killed", "stopped", "delayed", "never comes"}

	// Rank 2 is one as all are but rank 0, which serves the store.
	formingColumns = []formingColumn{{"shm", 2}, {"tcp", 2}, {"shm", 0}, {"tcp", 0}}
	outsider       = map[int]int{2: 0, 0: 3} // the rank that is in no subgroup, by the victim
)

func init() { roles["forms"] = forms }

// formingColumn is a part of the table.
type formingColumn struct {
	transport string
	victim    int
}

func (c formingColumn) String() string { return fmt.Sprintf("%s, %d", c.transport, c.victim) }

// forms makes a group of three of four ranks when told, or goes on with those that are left. As "subgroup" it sums in a group that it
// has made before.
func forms(p *process, g *pg.Group, what string) error {
	ctx, sub := context.Background(), g
	var err error
	what, victim, _ := strings.Cut(what, "/")
	three, color := []int{1, 2, 3}, min(g.Rank(), 1)
	if victim == "0" {
		three, color = []int{0, 1, 2}, g.Rank()/3
	}
	if what == "subgroup" {
		if sub, err = g.NewGroup(ctx, three); err != nil {
			return err
		}
	}
	if err := p.tell("ready", "", nil); err != nil {
		return err
	}
	if _, err := p.hear(); err != nil {
		return err
	}
	if err := p.tell("told", "", nil); err != nil {
		return err
	}
	switch what {
	case "new group":
		sub, err = g.NewGroup(ctx, three)
	case "split":
		sub, err = g.SplitByColor(ctx, color, 0, pg.GroupOptions{})
	case "subgroup":
		if sub.IsMember() {
			err = sub.AllReduce(ctx, colligo.Of(make([]float32, 1000)), colligo.Sum)
		}
	case "shrink":
		sub, err = g.Shrink(ctx)
	case "regroup":
		sub, err = pg.Regroup(ctx, g)
	}
	if err != nil && what == "subgroup" {
		_ = p.tell("knows", "", err)
		_ = sub.Close() // says the same
	}
	if err != nil {
		return err
	}
	if err := p.tell("formed", fmt.Sprint(sub.Ranks()), nil); err != nil || sub == g || !sub.IsMember() {
		return err
	}
	return sub.Close()
}

// TestFaultsForming has rank 2 or 0 of four end, stand still, come late or never. Meanwhile a group forms, or the others go on without it. A
// rank that comes late is waited for. Else the others go on without it where they can, and where they cannot all of them know within the
// limit which rank it was.
func TestFaultsForming(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	cells := map[string]string{}
	t.Cleanup(func() {
		if !*everyFault {
			return
		}
		for _, columns := range formingColumns {
			text := fmt.Sprintf("%-12s%-12s%-12s%-12s%-12s", columns, "killed", "stopped", "delayed", "never comes")
			for _, row := range formings {
				text += fmt.Sprintf("\n%-12s", row)
				for _, fault := range formingFaults {
					text += fmt.Sprintf("%-12s", cells[columns.String()+row+fault])
				}
			}
			t.Log("longest time until the others knew, or went on, where the limit is ", faultLimit, "\n", text)
		}
	})
	for i, row := range formings {
		for j, fault := range formingFaults {
			for k, columns := range formingColumns {
				if !*everyFault && (i+5*j+3*k)%11 != 3 {
					continue
				}
				t.Run(fmt.Sprintf("forming=%s/fault=%s/transport=%s/victim=%d", row, fault, columns.transport, columns.victim), func(t *testing.T) {
					t.Parallel()
					needs(t, columns.transport)
					took := sufferForming(t, columns.transport, columns.victim, row, fault)
					mu.Lock()
					defer mu.Unlock()
					cells[columns.String()+row+fault] = took.Round(10 * time.Millisecond).String()
				})
			}
		}
	}
}

// sufferForming runs one cell and returns when the last of the others knew.
func sufferForming(t *testing.T, transport string, victim int, row, fault string) (longest time.Duration) {
	limit := faultLimit
	if fault == "killed" { // which nobody waits out
		limit = patience
	}
	o := order{Role: "forms", Arg: fmt.Sprintf("%s/%d", row, victim), Config: config{Transport: transport, Timeout: limit, ConnectTimeout: limit}}
	if row == "init" { // then it is held when it has said that it is there
		o.Role, o.Config.Medium, o.Config.Transport = "check", transport, "auto"
	}
	job := launch(t, 4, o, func(rank int, o *order) { o.Config.Held = row == "init" && rank == victim })
	late := job.procs[victim]
	if row == "init" {
		late.next("held")
	} else {
		job.all("init")
		job.all("ready")
	}
	began := time.Now()
	switch fault {
	case "killed":
		require.NoError(t, late.cmd.Process.Kill())
	case "stopped":
		require.NoError(t, late.cmd.Process.Signal(syscall.SIGSTOP))
	case "delayed":
		go func() {
			time.Sleep(faultLimit / 2)
			late.say("go")
		}()
	}
	for rank, p := range job.procs {
		if row != "init" && rank != victim {
			p.say("go")
		}
	}
	for rank, p := range job.procs {
		if rank == victim && fault != "delayed" {
			continue
		}
		longest = max(longest, outcome(t, p, victim, row, fault, began))
	}
	if fault == "killed" {
		require.Less(t, longest, soon(), "a rank's death is known at once")
	}
	most := lateness()
	if *everyFault && row == "regroup" { // which closes a group as well
		most += beyond
	}
	require.Less(t, longest, limit+most)
	return longest
}

// outcome holds what a rank other than the victim reports to what it should.
func outcome(t *testing.T, p *rankProcess, victim int, row, fault string, began time.Time) time.Duration {
	if row != "init" {
		began = p.next("told").When
	}
	first := "done"
	if row == "subgroup" {
		first = "knows"
	}
	shrinks := row == "shrink" || row == "regroup"
	goesOn := fault == "delayed" || row == "subgroup" && p.name == fmt.Sprint("process ", outsider[victim]) ||
		shrinks && (victim != 0 || fault == "never comes") // rank 0 serves the store, if it does nothing else
	switch {
	case row == "init":
		first = "init"
	case goesOn:
		first = "formed"
	}
	r := p.next(first)
	took := r.When.Sub(began)
	t.Logf("%s after %v: %s%s", p.name, took.Round(time.Millisecond), r.Text, r.Err)
	switch {
	case !goesOn:
		require.Contains(t, r.Err, map[int]string{0: "rank 0", 2: map[bool]string{false: "rank 2", true: "global 2"}[row == "subgroup"]}[victim])
		if row == "subgroup" {
			p.next("done")
		}
	case row == "init":
		require.Empty(t, r.Err)
		require.Empty(t, p.next("done").Err)
	default:
		switch {
		case shrinks && fault == "delayed":
			require.Equal(t, "[0 1 2 3]", r.Text)
		case shrinks:
			require.Equal(t, map[int]string{0: "[1 2 3]", 2: "[0 1 3]"}[victim], r.Text)
		}
		require.Empty(t, p.next("done").Err)
	}
	if row == "init" && !goesOn {
		p.exits()
	} else {
		p.ends()
	}
	return took
}
