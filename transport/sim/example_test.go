package sim_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/sim"
)

// Two ranks of a network that takes a millisecond and loses rank 0 after its first frame.
func ExampleNet() {
	net := sim.New(sim.Config{Size: 2, Seed: 1, MinDelay: time.Millisecond})
	net.KillAfter(0, 1)
	var wg sync.WaitGroup
	for rank := range 2 {
		wg.Go(func() {
			m, err := net.Open(context.Background(), &transport.Config{Rank: rank, Size: 2, Lanes: 1})
			if err != nil {
				fmt.Println(err)
				return
			}
			defer m.Close()
			if rank == 0 {
				m.Link(1).Send(&transport.Header{Len: 5}, []byte("hello"))
				return
			}
			receive(m)
		})
	}
	wg.Wait()
	// Output:
	// hello
	// rank 0: peer lost
}

// receive prints what comes from rank 0 until the link ends.
func receive(m transport.Mesh) {
	link := m.Link(0)
	for idle := 1; ; idle++ {
		payload, full, err := link.Body(0, nil)
		switch {
		case err != nil:
			fmt.Println(err)
			return
		case full:
			fmt.Println(string(payload))
			link.Release(0)
			idle = 0
		default:
			m.Wait(idle, time.Time{})
		}
	}
}
