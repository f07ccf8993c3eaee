package pg

import (
	"slices"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/diagnose"
)

// RankStanding is where a rank of a group is, as RankStandings finds it. No twin in c10d.
type RankStanding struct {
	Rank     int    `json:"rank"`
	Answered bool   `json:"answered"`  // without an answer the rank is stopped, dead, gone, or out of reach
	Call     string `json:"call"`      // the collective that it has entered last; empty for none
	Does     string `json:"does"`      // what it is in, what it waits for, and what it has completed last
	WaitsFor []int  `json:"waits_for"` // ranks from which it waits for something, in ascending order
}

// RankStandings tells where the ranks of a group are, by rank: who waits for whom. It works while operations are under way, and on
// a failed group. With ask set it sends one question to each peer, and waits half a second at most for the answers. No peer
// has to call anything. Otherwise, after a failure, and with ranks of PyTorch, the answer is about this rank alone. No twin in c10d.
func RankStandings(g *Group, ask bool) []RankStanding {
	if g == nil || g.rank == colligo.NoRank {
		return nil
	}
	all := diagnose.Snapshots{}
	alone := !ask || g.size == 1 || speaksTorch(g) || g.Err() != nil
	if !alone {
		all = g.control.Ask(0)
	}
	all[g.rank] = g.control.Standing()
	var found []RankStanding
	for rank := range g.size {
		s, answered := all[rank]
		switch {
		case answered:
			found = append(found, RankStanding{rank, true, s.Call, s.Doing(), waitsFor(s)})
		case !alone:
			found = append(found, RankStanding{Rank: rank, Does: "does not answer", WaitsFor: []int{}})
		}
	}
	return found
}

// waitsFor returns the ranks from which something has to come.
func waitsFor(s diagnose.Snapshot) []int {
	from := append(append([]int{}, s.From...), s.Recvs...)
	from = slices.DeleteFunc(from, func(rank int) bool { return rank == diagnose.AnyPeer })
	slices.Sort(from)
	return slices.Compact(from)
}
