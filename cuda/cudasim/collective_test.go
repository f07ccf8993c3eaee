package cudasim_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// oneShot is the argument of an all-reduce of words by LL: every rank sends all it has to every peer.
type oneShot struct {
	LL         [8]uint64 // each rank's LL memory: two halves of a slot per sender
	State      uint64    // counters: operations done, blocks arrived
	In, Out    uint64
	Rank, Size uint32
	Words      uint32
	Halves     uint32 // 2, or 1 to get it wrong
}

const (
	slotBytes  = 4096
	blockWords = 64
)

func (a *oneShot) slot(at, from, number uint32) uint64 {
	return a.LL[at] + uint64(number%a.Halves*a.Size+from)*slotBytes
}

func oneShotModel(l *cudasim.Launch) {
	a := cudasim.Args[oneShot](l)
	l.Each(func(b *cudasim.Block) {
		number := b.LoadVolatile32(a.State) + 1
		for start := uint32(b.Index) * blockWords; start < a.Words; start += l.Grid * blockWords {
			n := int(min(blockWords, a.Words-start)) * 4
			for d := uint32(1); d < a.Size; d++ {
				b.StoreLL(a.slot((a.Rank+d)%a.Size, a.Rank, number)+uint64(start)*8, b.Load(a.In+uint64(start)*4, n), number)
			}
		}
		if b.Add32(a.State+4, 1) == l.Grid-1 {
			b.StoreVolatile32(a.State+4, 0)
			b.StoreVolatile32(a.State, number)
		}
		for start := uint32(b.Index) * blockWords; start < a.Words; start += l.Grid * blockWords {
			foldWords(a, b, start, number)
		}
	})
}

func foldWords(a *oneShot, b *cudasim.Block, start, number uint32) {
	n := int(min(blockWords, a.Words-start)) * 4
	sum := slices.Clone(b.Load(a.In+uint64(start)*4, n))
	for q := range a.Size {
		if q == a.Rank {
			continue
		}
		data := make([]byte, n)
		b.Poll(func() bool { return b.LoadLL(a.slot(a.Rank, q, number)+uint64(start)*8, data, number) })
		for i := 0; i < n; i += 4 {
			v := binary.LittleEndian.Uint32(sum[i:]) + binary.LittleEndian.Uint32(data[i:])
			binary.LittleEndian.PutUint32(sum[i:], v)
		}
	}
	copy(b.Store(a.Out+uint64(start)*4, n), sum)
}

// A member is one rank in a process of its own.
type member struct {
	*rig
	args   oneShot
	s      cuda.Stream
	f      cuda.Function
	opened []cuda.Pointer // by IPC
}

// leave gives everything back, what is mapped of peers first.
func leave(t *testing.T, all []*member) {
	for rank, m := range all {
		m.on(rank, func(th cuda.Thread) {
			for _, p := range m.opened {
				require.NoError(t, th.CloseIPC(p))
			}
		})
	}
	for _, m := range all {
		m.close()
	}
}

func members(t *testing.T, sim *cudasim.Sim, size, words int, halves uint32) []*member {
	all := make([]*member, size)
	handles := make([]cuda.IPCHandle, size)
	for rank := range all {
		m := &member{rig: open(t, sim, sim.Process().Driver())}
		all[rank] = m
		m.args = oneShot{Rank: uint32(rank), Size: uint32(size), Words: uint32(words), Halves: halves}
		m.args.LL[rank] = uint64(m.alloc(rank, 2*size*slotBytes))
		m.args.State = uint64(m.alloc(rank, 8))
		m.args.In, m.args.Out = uint64(m.alloc(rank, 4*words)), uint64(m.alloc(rank, 4*words))
		m.s = m.stream(rank)
		m.f = m.function(rank, "one_shot", uintptr(8*11+16), oneShotModel)
		m.on(rank, func(th cuda.Thread) {
			var err error
			handles[rank], err = th.IPCHandle(cuda.Pointer(m.args.LL[rank]))
			require.NoError(t, err)
		})
	}
	for rank, m := range all {
		m.on(rank, func(th cuda.Thread) {
			for q, h := range handles {
				if q == rank {
					continue
				}
				p, err := th.OpenIPC(h)
				require.NoError(t, err)
				m.args.LL[q] = uint64(p)
				m.opened = append(m.opened, p)
			}
		})
	}
	sim.Meet()
	return all
}

func (m *member) reduce(th cuda.Thread) error {
	return th.Launch(m.f, cuda.Grid{Blocks: 4, Threads: 256}, args(m.args), m.s)
}

// rounds runs n all-reduces in place of one another on every rank, as host goroutines of their own.
func rounds(all []*member, n int) error {
	errs := make([]error, len(all))
	var ranks sync.WaitGroup
	for rank, m := range all {
		ranks.Go(func() {
			th, err := m.devices[rank].Enter()
			if err != nil {
				errs[rank] = err
				return
			}
			defer th.Leave()
			for i := range n {
				err = th.Set32(cuda.Pointer(m.args.In), uint32(i+rank), int(m.args.Words), m.s)
				if err == nil {
					err = m.reduce(th)
				}
				if err != nil {
					break
				}
			}
			if err == nil {
				err = th.Synchronize(m.s)
			}
			errs[rank] = err
		})
	}
	ranks.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestOneShotAllReduce(t *testing.T) {
	for _, size := range []int{1, 2, 3, 4, 8} {
		seeds(t, 4, func(t *testing.T, seed uint64) {
			const words, n = 301, 6
			sim := cudasim.New(cudasim.Config{Devices: size, Seed: seed, HostPerProcess: true, Uninitialized: true})
			cudasim.Limit(t, sim)
			defer cudasim.Check(t, sim)
			all := members(t, sim, size, words, 2)
			require.NoError(t, rounds(all, n))
			want := uint32(size*(n-1) + size*(size-1)/2)
			for rank, m := range all {
				for _, v := range m.words(rank, cuda.Pointer(m.args.Out), words) {
					require.Equal(t, want, v)
				}
			}
			leave(t, all)
		})
	}
}

// With one half in place of two, LL data is overwritten before it is taken.
func TestOneShotWithoutHalves(t *testing.T) {
	for seed := range uint64(20) {
		sim := cudasim.New(cudasim.Config{Devices: 2, Seed: seed, HostPerProcess: true, Patience: 100 * time.Millisecond})
		cudasim.Limit(t, sim)
		all := members(t, sim, 2, 64, 1)
		err := rounds(all, 4)
		require.True(t, len(sim.Races()) > 0 || err != nil, "seed %d", seed)
		sim.Close()
	}
}

func TestOneShotInGraph(t *testing.T) {
	seeds(t, 3, func(t *testing.T, seed uint64) {
		const size, replays = 3, 4
		sim := cudasim.New(cudasim.Config{Devices: size, Seed: seed})
		cudasim.Limit(t, sim)
		defer cudasim.Check(t, sim)
		all := members(t, sim, size, 100, 2)
		graphs := make([]cuda.GraphExec, size)
		for rank, m := range all {
			m.on(rank, func(th cuda.Thread) {
				require.NoError(t, th.Set32(cuda.Pointer(m.args.In), 1, 100, m.s))
				require.NoError(t, th.BeginCapture(m.s, cuda.CaptureThreadLocal))
				for range 3 { // in place of its input each time
					require.NoError(t, m.reduce(th))
					require.NoError(t, th.Copy(cuda.Pointer(m.args.In), cuda.Pointer(m.args.Out), 400, m.s))
				}
				var err error
				graphs[rank], err = th.EndCapture(m.s)
				require.NoError(t, err)
			})
		}
		for range replays {
			for rank, m := range all {
				m.on(rank, func(th cuda.Thread) { require.NoError(t, th.LaunchGraph(graphs[rank], m.s)) })
			}
		}
		want := uint32(1)
		for range 3 * replays {
			want *= size
		}
		for rank, m := range all {
			m.on(rank, func(th cuda.Thread) {
				require.NoError(t, th.Synchronize(m.s))
				require.NoError(t, th.DestroyGraph(graphs[rank]))
			})
			require.Equal(t, want, m.words(rank, cuda.Pointer(m.args.Out), 1)[0])
		}
		leave(t, all)
	})
}

func BenchmarkOneShot(b *testing.B) {
	for _, size := range []int{2, 8} {
		b.Run(fmt.Sprintf("ranks=%d/bytes=1200", size), func(b *testing.B) {
			t := &testing.T{}
			sim := cudasim.New(cudasim.Config{Devices: size})
			cudasim.Limit(b, sim)
			defer sim.Close()
			all := members(t, sim, size, 300, 2)
			b.ResetTimer()
			if err := rounds(all, b.N); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkCopy(b *testing.B) {
	sim := cudasim.New(cudasim.Config{Devices: 2})
	cudasim.Limit(b, sim)
	defer sim.Close()
	r := open(&testing.T{}, sim, sim.Driver())
	const bytes = 4 << 20
	p, q, s := r.alloc(0, bytes), r.alloc(1, bytes), r.stream(0)
	b.SetBytes(bytes)
	b.ResetTimer()
	r.on(0, func(th cuda.Thread) {
		for range b.N {
			if err := errors.Join(th.Copy(q, p, bytes, s), th.Synchronize(s)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
