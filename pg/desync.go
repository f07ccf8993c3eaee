package pg

import (
	"sync"

	"github.com/colligo-go/colligo/pg/internal/diagnose"
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
const mostNamed = diagnose.MostNamed

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

// logDesync logs one line for each peer: where it is, or that it does not answer.
func (g *Group) logDesync(got diagnose.Snapshots) {
	for peer := range g.size {
		if peer == g.rank {
			continue
		}
		s, ok := got[peer]
		does := "does not answer"
		if ok {
			does = s.Doing()
		}
		g.log.Warn("where a rank is", "group", g.name, "rank", g.rank, "seq", numberOf(s.Seq), "peer", peer, "entered", s.Call, "does", does)
	}
}
