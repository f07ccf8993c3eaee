package plan_test

import (
	"testing"

	"github.com/colligo-go/colligo/plan"
)

func TestCost(t *testing.T) {
	p, err := plan.Parse("all_reduce rank 0/3 count 9 elem 4 lanes 2 algo x scratch 5 | out[0:2]=in[0:2]; >1 in[0:2] <2 out[0:3]=in[0:3]+;" +
		" scratch[0:5]=in[0:5]+out[0:5] | <1 out[0:4]")
	if err != nil {
		t.Fatal(err)
	}
	const want = "3 steps, sent 2, received 7, reduced 8, copied 2, scratch 5"
	if got := p.Cost().String(); got != want {
		t.Errorf("cost is %s, want %s", got, want)
	}
}

// TestRounds takes a chain, in which the second chunk follows one round behind, and a pair that never meets.
func TestRounds(t *testing.T) {
	parse := func(texts ...string) (plans []*plan.Plan) {
		for _, text := range texts {
			p, err := plan.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			plans = append(plans, p)
		}
		return plans
	}
	chain := parse("broadcast rank 0/3 root 0 count 2 elem 4 algo x | >1 in[0:1]; >1 in[1:2]",
		"broadcast rank 1/3 root 0 count 2 elem 4 algo x | <0 out[0:1]; >2 out[0:1] <0 out[1:2]; >2 out[1:2]",
		"broadcast rank 2/3 root 0 count 2 elem 4 algo x | <1 out[0:1]; <1 out[1:2]")
	if n := plan.Rounds(chain); n != 3 {
		t.Errorf("a chain of 3 with 2 chunks takes %d rounds, want 3", n)
	}
	if n := plan.Rounds(chain[:2]); n != -1 {
		t.Errorf("a chain without its end takes %d rounds, want -1", n)
	}
	// Rank 0's first send is over a round before its receive; rank 1 must not take it twice.
	late := parse("all_gather rank 0/4 count 1 elem 4 algo x | >1 in[0:1] <2 out[3:4]; >1 out[3:4]",
		"all_gather rank 1/4 count 1 elem 4 algo x | <0 out[0:1]; <0 out[3:4]",
		"all_gather rank 2/4 count 1 elem 4 algo x | <3 out[3:4]; >0 out[3:4]",
		"all_gather rank 3/4 count 1 elem 4 algo x | >2 in[0:1]")
	if n := plan.Rounds(late); n != 3 {
		t.Errorf("a send that is over before its step takes %d rounds, want 3", n)
	}
	local := parse("all_reduce rank 0/1 count 2 elem 4 algo x | out[0:1]=in[0:1]; out[1:2]=in[1:2]")
	if n := plan.Rounds(local); n != 0 {
		t.Errorf("local steps take %d rounds, want 0", n)
	}
	if n := plan.Rounds(nil); n != 0 {
		t.Errorf("no plans take %d rounds, want 0", n)
	}
}
