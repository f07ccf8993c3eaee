package cudasim_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

type number struct{ N uint64 }

// randomProgram enqueues n kernels on streams of two devices with random events between them. It returns the order in which
// they ran, and the pairs that had to be in order.
func randomProgram(t *testing.T, c cudasim.Config, program uint64, n int) (order []uint64, before [][2]uint64) {
	c.Devices = 2
	r := newRig(t, c)
	random := rand.New(rand.NewPCG(program, 1))
	var functions []cuda.Function
	for d := range 2 {
		functions = append(functions, r.function(d, "log", 8, func(l *cudasim.Launch) {
			order = append(order, cudasim.Args[number](l).N)
		}))
	}
	var streams []cuda.Stream
	var events []cuda.Event
	for i := range 6 {
		streams = append(streams, r.stream(i%2))
		events = append(events, r.event(i%2))
	}
	last := map[int]uint64{}     // kernel by stream
	recorded := map[int]uint64{} // kernel by event
	for k := range uint64(n) {
		i := random.IntN(len(streams))
		waits := random.IntN(len(streams))
		r.on(i%2, func(th cuda.Thread) {
			if before1, ok := recorded[waits]; ok && random.IntN(2) == 0 {
				require.NoError(t, th.WaitEvent(streams[i], events[waits]))
				before = append(before, [2]uint64{before1, k})
			}
			require.NoError(t, th.Launch(functions[i%2], cuda.Grid{Blocks: 1, Threads: 32}, args(number{k}), streams[i]))
			if before1, ok := last[i]; ok {
				before = append(before, [2]uint64{before1, k})
			}
			last[i] = k
			if random.IntN(2) == 0 {
				require.NoError(t, th.Record(events[i], streams[i]))
				recorded[i] = k
			}
		})
	}
	for i, s := range streams {
		r.on(i%2, func(th cuda.Thread) { require.NoError(t, th.Synchronize(s)) })
	}
	return order, before
}

func TestOrderIsLegal(t *testing.T) {
	orders := map[string]bool{}
	for seed := range uint64(40) {
		order, before := randomProgram(t, cudasim.Config{Seed: seed}, 7, 80)
		require.Len(t, order, 80)
		for _, b := range before {
			require.Less(t, slices.Index(order, b[0]), slices.Index(order, b[1]), "seed %d: kernel %d before %d", seed, b[0], b[1])
		}
		orders[fmt.Sprint(order)] = true
	}
	require.Greater(t, len(orders), 35, "seeds hardly differ")
}

func TestSameSeedSameOrder(t *testing.T) {
	c := cudasim.Config{Seed: 11, Quiet: -1}
	first, _ := randomProgram(t, c, 3, 60)
	for range 3 {
		again, _ := randomProgram(t, c, 3, 60)
		require.Equal(t, first, again)
	}
}

// A killed process ends in one order, too: what goes on beside it does so as before.
func TestSameSeedSameEnd(t *testing.T) {
	run := func() (order []uint64) {
		_, r, processes := pair(t, cudasim.Config{Seed: 5, Quiet: -1, EagerLoading: true})
		stuck := r[1].function(1, "stuck", 8, func(l *cudasim.Launch) {
			l.Each(func(b *cudasim.Block) {
				defer func() { order = append(order, 100+uint64(b.Index)) }()
				b.Poll(func() bool { return b.LoadAcquire32(cudasim.Args[number](l).N) == 9 })
			})
		})
		log := r[0].function(0, "log", 8, func(l *cudasim.Launch) {
			l.Each(func(b *cudasim.Block) { order = append(order, uint64(b.Index)) })
		})
		s, word := r[1].stream(1), r[1].alloc(1, 4)
		r[1].on(1, func(th cuda.Thread) {
			require.NoError(t, th.Launch(stuck, cuda.Grid{Blocks: 16, Threads: 32}, args(number{uint64(word)}), s))
		})
		r[0].on(0, func(th cuda.Thread) {
			require.NoError(t, th.Launch(log, cuda.Grid{Blocks: 16, Threads: 32}, args(number{}), 0))
			require.NoError(t, th.Synchronize(0))
			processes[1].Kill()
			require.NoError(t, th.Launch(log, cuda.Grid{Blocks: 16, Threads: 32}, args(number{}), 0))
			require.NoError(t, th.Synchronize(0))
		})
		return order
	}
	first := run()
	for range 5 {
		require.Equal(t, first, run())
	}
}

// The legacy default stream orders with blocking streams and not with others.
func TestLegacyStream(t *testing.T) {
	seeds(t, 20, func(t *testing.T, seed uint64) {
		r := newRig(t, cudasim.Config{Seed: seed})
		p := r.alloc(0, 4)
		r.on(0, func(th cuda.Thread) {
			blocking, res := r.sim.Driver().StreamCreateWithPriority(0, 0)
			require.Equal(t, cuda.Success, res)
			for i := range uint32(5) {
				require.NoError(t, th.Set32(p, 2*i, 1, blocking))
				require.NoError(t, th.Set32(p, 2*i+1, 1, 0))
			}
			require.NoError(t, th.Synchronize(blocking))
			require.NoError(t, th.DestroyStream(blocking))
		})
		require.Equal(t, []uint32{9}, r.words(0, p, 1))
	})
}

// Devices go on when the host makes no call and watches memory instead, and see what it writes there.
func TestHostSpins(t *testing.T) {
	seeds(t, 5, func(t *testing.T, seed uint64) {
		r := newRig(t, cudasim.Config{Seed: seed})
		h, s := r.host(8), r.stream(0)
		there, back := h.Device, h.Device+4
		f := r.function(0, "echo", 8, func(l *cudasim.Launch) {
			at := cudasim.Args[number](l).N
			l.Poll(func() bool { return l.LoadAcquire32(at) == 5 })
			l.StoreRelease32(at+4, 6)
		})
		r.on(0, func(th cuda.Thread) {
			require.NoError(t, th.Launch(f, cuda.Grid{Blocks: 1, Threads: 32}, args(number{uint64(there)}), s))
			require.NoError(t, th.Wait32(s, back, 7))
		})
		time.Sleep(3 * time.Millisecond)
		storeWord(h.Bytes, 0, 5)
		for loadWord(h.Bytes, 4) != 6 {
			time.Sleep(time.Millisecond)
		}
		storeWord(h.Bytes, 4, 7)
		r.on(0, func(th cuda.Thread) { require.NoError(t, th.Synchronize(s)) })
	})
}

func TestQueriesAndTimes(t *testing.T) {
	r := newRig(t, cudasim.Config{})
	p, s := r.alloc(0, 64), r.stream(0)
	r.on(0, func(th cuda.Thread) {
		a, err := th.NewEvent(true)
		require.NoError(t, err)
		b, err := th.NewEvent(true)
		require.NoError(t, err)
		require.NoError(t, th.Record(a, s))
		require.NoError(t, th.Wait32(s, p, 1))
		require.NoError(t, th.Record(b, s))
		done, err := th.StreamDone(s)
		require.NoError(t, err)
		require.False(t, done)
		_, err = th.Elapsed(a, b)
		require.ErrorIs(t, err, cuda.NotReady)
		other, err := th.NewStream(0)
		require.NoError(t, err)
		require.NoError(t, th.Write32(other, p, 1))
		require.NoError(t, th.DestroyStream(other))
		for done = false; !done; {
			done, err = th.EventDone(b)
			require.NoError(t, err)
		}
		ms, err := th.Elapsed(a, b)
		require.NoError(t, err)
		require.Positive(t, ms)
		require.NoError(t, th.DestroyEvent(a))
		require.NoError(t, th.DestroyEvent(b))
	})
}
