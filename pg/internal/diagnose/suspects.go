package diagnose

import (
	"maps"
	"slices"
)

// suspects returns the ranks at fault when an operation is late, as far as the snapshots tell. The first rule that applies
// decides:
//  1. Ranks that do not answer.
//  2. For a send or receive, the end of the peer's chain of ranks that wait for messages.
//  3. On a device, the ranks that have come least far.
//  4. Ranks that have not entered the collective and have nothing pending.
//  5. The ends of the chains of ranks that wait for messages.
func suspects(o *Operation, own Snapshot, peers Snapshots) []int {
	all := Snapshots{o.Rank: own}
	maps.Copy(all, peers)
	var silent []int
	for peer := range o.Size {
		if _, ok := all[peer]; !ok {
			silent = append(silent, peer)
		}
	}
	switch {
	case silent != nil:
		return silent
	case o.pair():
		return all.atEnd([]int{o.Peer})
	case o.Device:
		return all.last(o.Seq)
	}
	if idle := all.idle(o.Seq); idle != nil {
		return idle
	}
	var waiting []int // for messages; a rank in an earlier collective waits for ranks that are behind
	for peer, s := range all {
		if s.Seq < o.Seq && s.Seq <= s.Done {
			waiting = append(waiting, peer)
		}
	}
	return all.atEnd(waiting)
}

// idle returns the ranks that have not entered a collective and have nothing pending.
func (all Snapshots) idle(seq uint64) []int {
	var idle []int
	for peer, s := range all {
		if s.Seq < seq && s.Seq <= s.Done && len(s.Sends)+len(s.Recvs) == 0 {
			idle = append(idle, peer)
		}
	}
	slices.Sort(idle)
	return idle
}

// last returns the ranks that have come least far, unless every rank has entered the collective.
func (all Snapshots) last(seq uint64) []int {
	least := seq
	for _, s := range all {
		least = min(least, s.Seq)
	}
	var last []int
	for peer, s := range all {
		if s.Seq == least && s.Seq < seq {
			last = append(last, peer)
		}
	}
	slices.Sort(last)
	return last
}

// atEnd follows ranks that wait for messages to the ranks that wait for none. Of a rank that waits in a collective it
// returns the idle ranks that have not entered that collective.
func (all Snapshots) atEnd(todo []int) []int {
	var ends []int
	for seen := map[int]bool{}; len(todo) > 0; todo = todo[1:] {
		peer := todo[0]
		s, ok := all[peer]
		if !ok || seen[peer] { // AnyPeer has no snapshot
			continue
		}
		seen[peer] = true
		idle := all.idle(s.Seq)
		switch next := slices.Concat(s.Recvs, s.Sends); {
		case len(next) > 0:
			todo = slices.Concat(todo, next)
		case s.Seq > s.Done && idle != nil:
			ends = append(ends, idle...)
		default:
			ends = append(ends, peer)
		}
	}
	slices.Sort(ends)
	return slices.Compact(ends)
}
