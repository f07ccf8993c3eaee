package diagnose

import (
	"maps"
	"slices"
)

// suspects returns the ranks at fault when an operation is late, as far as the snapshots tell. The first rule that applies
// decides:
//  1. Ranks that do not answer, unless they have closed the group.
//  2. The ends of links on which bytes are stuck.
//  3. For a send or receive, the end of the peer's chain of ranks that wait for messages.
//  4. Ranks that have not entered the collective and have nothing pending.
//  5. The ends of the chains of ranks that wait for messages.
//  6. On a device, the ranks that have come least far. They may hang in something that the group does not know.
//  7. Ranks that have closed the group.
func suspects(o *Operation, own Snapshot, peers Snapshots) []int {
	all := Snapshots{o.Rank: own}
	maps.Copy(all, peers)
	var silent, left []int
	for peer := range o.Size {
		if _, ok := all[peer]; ok {
			continue
		}
		if slices.Contains(o.Left, peer) {
			left = append(left, peer)
		} else {
			silent = append(silent, peer)
		}
	}
	if silent != nil {
		return silent
	}
	if found := all.present(o, own, peers); found != nil {
		return found
	}
	return left
}

// present returns the suspects among the ranks that answer.
func (all Snapshots) present(o *Operation, own Snapshot, peers Snapshots) []int {
	if stuck := stuckLinks(o, own, peers); stuck != nil {
		var ends []int
		for _, l := range stuck {
			ends = append(ends, l.from, l.to)
		}
		slices.Sort(ends)
		return slices.Compact(ends)
	}
	if o.pair() {
		return all.atEnd([]int{o.Peer})
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
	if ends := all.atEnd(waiting); ends != nil || !o.Device {
		return ends
	}
	return all.last(o.Seq)
}

// stuckLink is a direction between two ranks in which bytes were sent that have not arrived.
type stuckLink struct{ from, to int }

// stuckLinks returns them in ascending order of the receiving rank. A rank that has gone on from a collective has sent all that
// it had to send in it.
func stuckLinks(o *Operation, own Snapshot, peers Snapshots) []stuckLink {
	all := Snapshots{o.Rank: own}
	maps.Copy(all, peers)
	var found []stuckLink
	for _, to := range slices.Sorted(maps.Keys(all)) {
		s := all[to]
		for _, from := range s.From {
			f, ok := all[from]
			gone := ok && s.At > 0 && (f.Done >= s.At || f.At > s.At)
			ahead := ok && s.At > 0 && f.At == s.At && f.Sent[to] > s.Got[from]
			if (gone || ahead) && len(found) < MostNamed {
				found = append(found, stuckLink{from, to})
			}
		}
	}
	return found
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
