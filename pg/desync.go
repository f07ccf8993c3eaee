package pg

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/plan"
)

// owing counts the sends and receives that are pending, by peer, so that a rank can say what it waits for.
type owing struct {
	mu           sync.Mutex
	sends, recvs map[int]int
}

func (o *owing) add(op *operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sends == nil {
		o.sends, o.recvs = map[int]int{}, map[int]int{}
	}
	op.owed = op.peer // which a receive from any peer changes
	o.of(op)[op.owed]++
}

func (o *owing) of(op *operation) map[int]int {
	if op.coll == plan.Send {
		return o.sends
	}
	return o.recvs
}

func (o *owing) ended(op *operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if by := o.of(op); by[op.owed] > 1 {
		by[op.owed]--
	} else {
		delete(by, op.owed)
	}
}

// mostNamed bounds the peers that a rank names.
const mostNamed = 16

// list returns some of the peers, in no order.
func (o *owing) list() (sends, recvs []int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range []struct {
		from map[int]int
		to   *[]int
	}{{o.sends, &sends}, {o.recvs, &recvs}} {
		for peer := range l.from {
			if len(*l.to) < mostNamed {
				*l.to = append(*l.to, peer)
			}
		}
	}
	return sends, recvs
}

// doing says what a rank waits for, by its answer.
func (n *note) doing() string {
	var parts []string
	if n.Seq > n.Done && n.Call != "" {
		parts = append(parts, "is in "+n.Call)
	}
	for _, l := range []struct {
		verb  string
		peers []int
	}{{"waits to send to", n.Sends}, {"waits to receive from", n.Recvs}} {
		for _, peer := range l.peers {
			parts = append(parts, l.verb+" rank "+peerName(peer))
		}
	}
	if parts == nil {
		parts = []string{"has nothing pending"}
	}
	if done := numberOf(n.Done); done > 0 {
		parts = append(parts, fmt.Sprintf("last completed #%d", done))
	}
	return strings.Join(parts, ", ")
}

// strayed says what the ranks that have not entered do instead, if they are few.
func strayed(missing []int, got map[int]note) []string {
	const few = 4
	if len(missing) == 0 {
		return nil
	}
	parts := furthest(missing, got)
	for _, peer := range missing[:min(len(missing), few)] {
		if n := got[peer]; n.Done > 0 || len(n.Sends)+len(n.Recvs) > 0 {
			parts = append(parts, fmt.Sprintf("rank %d %s", peer, n.doing()))
		}
	}
	return parts
}

// wordPair makes one line of the peers' answers about a send or receive that is late. Whoever does not answer is named:
// the peer may itself wait for that rank.
func (g *Group) wordPair(op *operation, after time.Duration, got map[int]note) error {
	parts := []string{fmt.Sprintf("nothing from rank %s with tag %d after %v", peerName(op.peer), op.tag, after)}
	if op.coll == plan.Send {
		parts[0] = fmt.Sprintf("rank %d has not taken the message with tag %d after %v", op.peer, op.tag, after)
	} else if op.device.Kind == colligo.CPU { // else this is not who drives
		parts = append(parts, g.stash.others(op.peer)...)
	}
	var silent []int
	for peer := range g.size {
		if _, ok := got[peer]; !ok && peer != g.rank {
			silent = append(silent, peer)
		}
	}
	if len(silent) > 0 {
		parts = append(parts, fmt.Sprintf("%s %s not answer", rankList(silent), do(silent)))
	}
	parts = append(parts, chain(op.peer, got)...)
	return &classed{errors.New(strings.Join(parts, "; ")), colligo.ErrTimeout}
}

// chain says what a peer does, and while that is to wait for another rank, what that one does.
func chain(peer int, got map[int]note) []string {
	var parts []string
	for seen := map[int]bool{}; !seen[peer] && len(parts) < mostNamed; {
		n, ok := got[peer]
		if !ok {
			break
		}
		seen[peer] = true
		parts = append(parts, fmt.Sprintf("rank %d %s", peer, n.doing()))
		next := append(n.Recvs, n.Sends...)
		if len(next) == 0 {
			break
		}
		peer = next[0]
	}
	return parts
}

// furthest names those of the ranks behind that have entered least, where others wait for them further on.
func furthest(missing []int, got map[int]note) []string {
	least := slices.MinFunc(missing, func(a, b int) int { return cmp.Compare(got[a].Seq, got[b].Seq) })
	var behind []int
	for _, peer := range missing {
		if got[peer].Seq == got[least].Seq {
			behind = append(behind, peer)
		}
	}
	if len(behind) == len(missing) {
		return nil
	}
	return []string{fmt.Sprintf("%s %s furthest behind", rankList(behind), number(behind, "is", "are"))}
}

// logWhereabouts logs one line for each rank.
func (g *Group) logWhereabouts(got map[int]note) {
	for peer := range g.size {
		if peer == g.rank {
			continue
		}
		n, ok := got[peer]
		does := "does not answer"
		if ok {
			does = n.doing()
		}
		g.log.Warn("where a rank is", "group", g.name, "rank", g.rank, "seq", numberOf(n.Seq), "peer", peer, "entered", n.Call, "does", does)
	}
}
