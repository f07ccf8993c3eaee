package tcpstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/store"
)

// TestChurn lets goroutines of two clients set, get, count, push, pop and give up waits at random. Every count and
// every value must come out right, and nothing may be left waiting.
func TestChurn(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := serve(t, ServerOptions{})
	clients := []*Client{dial(t, s, ClientOptions{}), dial(t, s, ClientOptions{})}
	for _, c := range clients { // so that no caller leaves a connection behind
		c.first.patience, c.dialer.patience = time.Minute, time.Minute
	}
	const callers, rounds = 6, 60
	var all sync.WaitGroup
	errs := make(chan error, callers)
	for g := range callers {
		all.Go(func() {
			w := churner{clients[g%2], rand.New(rand.NewPCG(seed, uint64(g))), g}
			for i := 0; i < rounds && w.err(i, errs); i++ {
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	n, err := clients[0].Add(t.Context(), "sum", 0)
	require.NoError(t, err)
	require.EqualValues(t, callers*rounds, n)
	left, err := clients[1].QueueLen(t.Context(), "q")
	require.NoError(t, err)
	require.Zero(t, left)
	require.Zero(t, s.table.Watches())
	eventually(t, "connections that a context cut are gone", func() bool { return s.Clients() <= 2+callers })
}

// churner is one goroutine's part.
type churner struct {
	*Client
	rnd *rand.Rand
	id  int
}

// err does one round and reports whether it went well.
func (w churner) err(round int, errs chan<- error) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := w.round(ctx, round)
	if err != nil {
		errs <- fmt.Errorf("caller %d, round %d: %w", w.id, round, err)
	}
	return err == nil
}

func (w churner) round(ctx context.Context, i int) error {
	short, cancel := context.WithTimeout(ctx, time.Duration(w.rnd.IntN(1500))*time.Microsecond)
	defer cancel()
	if err := w.Wait(short, "never"); !errors.Is(err, store.ErrTimeout) {
		return fmt.Errorf("wait: %w", err)
	}
	key := fmt.Sprint(w.id, "/", i)
	if err := w.Set(ctx, key, []byte(key)); err != nil {
		return err
	}
	if v, err := w.Get(ctx, key); err != nil || string(v) != key {
		return fmt.Errorf("get %q: %q, %w", key, v, err)
	}
	if err := w.QueuePush(ctx, "q", []byte(key)); err != nil {
		return err
	}
	if _, err := w.QueuePop(ctx, "q", true); err != nil {
		return err
	}
	_, err := w.Add(ctx, "sum", 1)
	return err
}
