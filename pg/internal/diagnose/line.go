package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/ranklist"
	"github.com/colligo-go/colligo/plan"
)

// line words why a collective is late, and of which class that is.
func line(o *Operation, own Snapshot, peers Snapshots) (string, error) {
	var missing, silent, waiting, ahead, left []int
	for peer := range o.Size {
		s, ok := peers[peer]
		switch {
		case peer == o.Rank || ok && s.Seq == o.Seq && s.Call == o.Call:
			waiting = append(waiting, peer)
		case !ok && slices.Contains(o.Left, peer):
			left = append(left, peer)
		case !ok:
			silent = append(silent, peer)
		case s.Seq < o.Seq && o.Past[s.Seq] != "" && o.Past[s.Seq] != s.Call:
			return fmt.Sprintf("after %s %s is in %s, this rank has gone on from %s", o.After, o.names(peer), s.Call, o.Past[s.Seq]), colligo.ErrMismatch
		case s.Seq < o.Seq:
			missing = append(missing, peer)
		case s.Seq > o.Seq && s.Asked != "" && s.Asked != o.Call:
			return fmt.Sprintf("after %s %s has gone on from %s, this rank is in %s", o.After, o.names(peer), s.Asked, o.Call), colligo.ErrMismatch
		case s.Seq > o.Seq:
			ahead = append(ahead, peer)
		default:
			return fmt.Sprintf("after %s %s is in %s, this rank in %s", o.After, o.names(peer), s.Call, o.Call), colligo.ErrMismatch
		}
	}
	var parts []string
	say := func(ranks []int, one, many string, after ...string) {
		if len(ranks) > 0 {
			parts = append(parts, strings.Join(append([]string{o.names(ranks...), ranklist.Verb(ranks, one, many)}, after...), " "))
		}
	}
	say(missing, "has", "have", "not entered after", o.After)
	say(silent, "does", "do", "not answer after", o.After)
	if parts == nil && left == nil {
		parts = append(parts, fmt.Sprintf("not finished after %s though every rank has entered", o.After))
	} else if parts == nil {
		parts = append(parts, fmt.Sprintf("not finished after %s though every rank has entered that has not left", o.After))
	}
	say(waiting, "waits", "wait")
	say(ahead, "has", "have", "gone on")
	say(left, "has", "have", "closed the group")
	return strings.Join(slices.Concat(parts, o.links(own, peers), o.instead(missing, peers)), "; "), colligo.ErrTimeout
}

// names prints ranks, with their numbers in the default group where these differ.
func (o *Operation) names(ranks ...int) string { return ranklist.Both(ranks, o.Global) }

// links says between which ranks bytes are stuck.
func (o *Operation) links(own Snapshot, peers Snapshots) []string {
	var parts []string
	for _, l := range stuckLinks(o, own, peers) {
		parts = append(parts, fmt.Sprintf("%s waits for %s, which has sent it what does not arrive", o.names(l.to), o.names(l.from)))
	}
	return parts
}

// instead says what the ranks that have not entered do instead, if they are few.
func (o *Operation) instead(missing []int, peers Snapshots) []string {
	const few = 4
	if len(missing) == 0 {
		return nil
	}
	parts := o.furthestBehind(missing, peers)
	for _, peer := range missing[:min(len(missing), few)] {
		if s := peers[peer]; s.Done > 0 || len(s.Sends)+len(s.Recvs) > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", o.names(peer), s.doing(o.Global)))
		}
	}
	return parts
}

// furthestBehind names the missing ranks that have entered least. It says nothing where all of them have entered as much.
func (o *Operation) furthestBehind(missing []int, peers Snapshots) []string {
	least := slices.MinFunc(missing, func(a, b int) int { return cmp.Compare(peers[a].Seq, peers[b].Seq) })
	var behind []int
	for _, peer := range missing {
		if peers[peer].Seq == peers[least].Seq {
			behind = append(behind, peer)
		}
	}
	if len(behind) == len(missing) {
		return nil
	}
	return []string{fmt.Sprintf("%s %s furthest behind", o.names(behind...), ranklist.Verb(behind, "is", "are"))}
}

// pairLine words why a send or receive is late. It names every rank that does not answer: the peer may itself wait for one
// of them.
func pairLine(o *Operation, peers Snapshots) string {
	parts := []string{fmt.Sprintf("nothing from %s with tag %d after %s", peerName(o.Peer, o.Global), o.Tag, o.After)}
	if o.Coll == plan.Send {
		parts[0] = fmt.Sprintf("%s has not taken the message with tag %d after %s", o.names(o.Peer), o.Tag, o.After)
	}
	parts = append(parts, o.Unexpected...)
	var silent, left []int
	for peer := range o.Size {
		if _, ok := peers[peer]; ok || peer == o.Rank {
			continue
		}
		if slices.Contains(o.Left, peer) {
			left = append(left, peer)
		} else {
			silent = append(silent, peer)
		}
	}
	if len(silent) > 0 {
		parts = append(parts, fmt.Sprintf("%s %s not answer", o.names(silent...), ranklist.Verb(silent, "does", "do")))
	}
	if len(left) > 0 {
		parts = append(parts, fmt.Sprintf("%s %s closed the group", o.names(left...), ranklist.Verb(left, "has", "have")))
	}
	return strings.Join(append(parts, o.chain(peers)...), "; ")
}

// chain says what the peer does, and while that is to wait for another rank, what that rank does.
func (o *Operation) chain(peers Snapshots) []string {
	var parts []string
	peer := o.Peer
	for seen := map[int]bool{}; !seen[peer] && len(parts) < MostNamed; {
		s, ok := peers[peer]
		if !ok {
			break
		}
		seen[peer] = true
		parts = append(parts, fmt.Sprintf("%s %s", o.names(peer), s.doing(o.Global)))
		next := slices.Concat(s.Recvs, s.Sends)
		if len(next) == 0 {
			break
		}
		peer = next[0]
	}
	return parts
}

// Doing says what a rank waits for, and what it has completed.
func (s Snapshot) Doing() string { return s.doing(nil) }

// doing says it with the ranks' numbers in the default group, where these differ.
func (s Snapshot) doing(global []int) string {
	var parts []string
	if s.Seq > s.Done && s.Call != "" {
		parts = append(parts, "is in "+s.Call)
	}
	for _, l := range []struct {
		verb  string
		peers []int
	}{{"waits to send to", s.Sends}, {"waits to receive from", s.Recvs}} {
		for _, peer := range l.peers {
			parts = append(parts, l.verb+" "+peerName(peer, global))
		}
	}
	if parts == nil {
		parts = []string{"has nothing pending"}
	}
	if s.Number > 0 {
		parts = append(parts, fmt.Sprintf("last completed #%d", s.Number))
	}
	if len(s.From) > 0 {
		parts = append(parts, "waits for bytes from "+ranklist.Both(s.From, global))
	}
	return strings.Join(parts, ", ")
}

func peerName(peer int, global []int) string {
	if peer == AnyPeer {
		return "rank any"
	}
	return ranklist.Both([]int{peer}, global)
}
