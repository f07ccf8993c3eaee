package pg

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/internal/control"
	"github.com/colligo-go/colligo/pg/internal/host"
	"github.com/colligo-go/colligo/transport"
)

// TestSuspects finds the ranks at fault in an error, also where a peer has told it.
func TestSuspects(t *testing.T) {
	lost := host.Classify(fmt.Errorf("all_reduce: %w", &transport.PeerError{Peer: 3, Err: transport.ErrLost}))
	late := &colligo.OpError{Rank: 0, Peer: colligo.NoRank, Err: &suspected{errors.New("late"), []int{1, 2}}}
	for _, c := range []struct {
		err      error
		suspects []int
	}{
		{nil, nil}, {errors.New("no reason"), nil}, {lost, []int{3}}, {late, []int{1, 2}},
		{&transport.PeerError{Peer: 3, Err: errors.New("not lost")}, nil},
		{&control.Reported{Peer: 1, Text: lost.Error()}, nil},
	} {
		require.Equal(t, c.suspects, suspectsOf(c.err), "%v", c.err)
	}
	require.Equal(t, "late", errors.Unwrap(late).Error())

	n := failureMessage(late, 7)
	n.Suspects = append(n.Suspects, -1, 3) // as no rank says
	b, err := json.Marshal(n)
	require.NoError(t, err)
	g := &Group{member: member{size: 3}, log: quiet.Log, job: &sharedJob{}, host: host.New(host.Config{Size: 3})}
	g.handle()
	g.listen()
	g.control.Receive(1, b)
	require.Equal(t, []int{1, 2}, suspectsOf(g.Err()))
}
