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
func line(o *Operation, peers Snapshots) (string, error) {
	var missing, silent, waiting, ahead []int
	for peer := range o.Size {
		s, ok := peers[peer]
		switch {
		case peer == o.Rank || ok && s.Seq == o.Seq && s.Call == o.Call:
			waiting = append(waiting, peer)
		case !ok:
			silent = append(silent, peer)
		case s.Seq < o.Seq:
			missing = append(missing, peer)
		case s.Seq > o.Seq:
			ahead = append(ahead, peer)
		default:
			return fmt.Sprintf("after %s rank %d is in %s, this rank in %s", o.After, peer, s.Call, o.Call), colligo.ErrMismatch
		}
	}
	var parts []string
	if len(missing) > 0 {
		parts = append(parts, fmt.Sprintf("%s %s not entered after %s", ranklist.Text(missing), ranklist.Verb(missing, "has", "have"), o.After))
	}
	if len(silent) > 0 {
		parts = append(parts, fmt.Sprintf("%s %s not answer after %s", ranklist.Text(silent), ranklist.Verb(silent, "does", "do"), o.After))
	}
	if parts == nil {
		parts = append(parts, fmt.Sprintf("not finished after %s though every rank has entered", o.After))
	}
	parts = append(parts, fmt.Sprintf("%s %s", ranklist.Text(waiting), ranklist.Verb(waiting, "waits", "wait")))
	if len(ahead) > 0 {
		parts = append(parts, fmt.Sprintf("%s %s gone on", ranklist.Text(ahead), ranklist.Verb(ahead, "has", "have")))
	}
	parts = append(parts, instead(missing, peers)...)
	return strings.Join(parts, "; "), colligo.ErrTimeout
}

// instead says what the ranks that have not entered do instead, if they are few.
func instead(missing []int, peers Snapshots) []string {
	const few = 4
	if len(missing) == 0 {
		return nil
	}
	parts := furthestBehind(missing, peers)
	for _, peer := range missing[:min(len(missing), few)] {
		if s := peers[peer]; s.Done > 0 || len(s.Sends)+len(s.Recvs) > 0 {
			parts = append(parts, fmt.Sprintf("rank %d %s", peer, s.Doing()))
		}
	}
	return parts
}

// furthestBehind names the missing ranks that have entered least. It says nothing where all of them have entered as much.
func furthestBehind(missing []int, peers Snapshots) []string {
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
	return []string{fmt.Sprintf("%s %s furthest behind", ranklist.Text(behind), ranklist.Verb(behind, "is", "are"))}
}

// pairLine words why a send or receive is late. It names every rank that does not answer: the peer may itself wait for one
// of them.
func pairLine(o *Operation, peers Snapshots) string {
	parts := []string{fmt.Sprintf("nothing from rank %s with tag %d after %s", peerName(o.Peer), o.Tag, o.After)}
	if o.Coll == plan.Send {
		parts[0] = fmt.Sprintf("rank %d has not taken the message with tag %d after %s", o.Peer, o.Tag, o.After)
	}
	parts = append(parts, o.Unexpected...)
	var silent []int
	for peer := range o.Size {
		if _, ok := peers[peer]; !ok && peer != o.Rank {
			silent = append(silent, peer)
		}
	}
	if len(silent) > 0 {
		parts = append(parts, fmt.Sprintf("%s %s not answer", ranklist.Text(silent), ranklist.Verb(silent, "does", "do")))
	}
	return strings.Join(append(parts, chain(o.Peer, peers)...), "; ")
}

// chain says what a peer does, and while that is to wait for another rank, what that rank does.
func chain(peer int, peers Snapshots) []string {
	var parts []string
	for seen := map[int]bool{}; !seen[peer] && len(parts) < MostNamed; {
		s, ok := peers[peer]
		if !ok {
			break
		}
		seen[peer] = true
		parts = append(parts, fmt.Sprintf("rank %d %s", peer, s.Doing()))
		next := slices.Concat(s.Recvs, s.Sends)
		if len(next) == 0 {
			break
		}
		peer = next[0]
	}
	return parts
}

// Doing says what a rank waits for, and what it has completed.
func (s Snapshot) Doing() string {
	var parts []string
	if s.Seq > s.Done && s.Call != "" {
		parts = append(parts, "is in "+s.Call)
	}
	for _, l := range []struct {
		verb  string
		peers []int
	}{{"waits to send to", s.Sends}, {"waits to receive from", s.Recvs}} {
		for _, peer := range l.peers {
			parts = append(parts, l.verb+" rank "+peerName(peer))
		}
	}
	if parts == nil {
		parts = []string{"has nothing pending"}
	}
	if s.Number > 0 {
		parts = append(parts, fmt.Sprintf("last completed #%d", s.Number))
	}
	return strings.Join(parts, ", ")
}

func peerName(peer int) string {
	if peer == AnyPeer {
		return "any"
	}
	return fmt.Sprint(peer)
}
