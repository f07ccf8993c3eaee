package sim_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/sim"
	"github.com/colligo-go/colligo/transport/transporttest"
)

const second = time.Second

// log gathers what ranks are told.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// take returns the lines so far in sorted order, and forgets them.
func (l *log) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.lines)
	text := strings.Join(l.lines, "; ")
	l.lines = nil
	return text
}

// net is a network with one group of all its ranks and a log of their events.
type net struct {
	*sim.Net
	meshes []transport.Mesh
	log    log
}

func start(t *testing.T, c sim.Config) *net {
	t.Helper()
	n := &net{Net: sim.New(c)}
	t.Log(n)
	n.meshes = open(t, n.Net, c.Size, func(rank int, c *transport.Config) {
		c.Group = 7
		c.Events = transport.Events{
			Note: func(peer int, p []byte) { n.log.add("%d has %q from %d", rank, p, peer) },
			Lost: func(peer int, err error) { n.log.add("%d lost %v", rank, err) },
		}
	})
	return n
}

// stream returns count frames of 1000 bytes.
func stream(src, dst, lane, count int) *transporttest.Stream {
	s := &transporttest.Stream{Group: 7, Src: src, Dst: dst, Lane: lane, Sizes: make([]int, count)}
	for i := range s.Sizes {
		s.Sizes[i] = 1000
	}
	return s
}

func (n *net) send(t *testing.T, s *transporttest.Stream) {
	t.Helper()
	if err := transporttest.Drive(n.meshes[s.Src], second, s.Sender(n.meshes[s.Src], transporttest.Plain)); err != nil {
		t.Fatal(err)
	}
}

// receive takes what it can of a stream within a time and returns how many frames that were, and the error.
func (n *net) receive(s *transporttest.Stream, limit time.Duration) (int, error) {
	r := s.Receiver(n.meshes[s.Dst], transporttest.Mixed)
	err := transporttest.Drive(n.meshes[s.Dst], limit, r)
	return r.Taken(), err
}

func (n *net) expect(t *testing.T, s *transporttest.Stream, frames int, want error) {
	t.Helper()
	got, err := n.receive(s, second)
	if got != frames || !errors.Is(err, want) {
		t.Fatalf("%d to %d on lane %d: %d frames arrived and then %v; want %d and then %v", s.Src, s.Dst, s.Lane, got, err, frames, want)
	}
	var about *transport.PeerError
	if want != nil && (!errors.As(err, &about) || about.Peer != s.Src) {
		t.Fatalf("error does not name rank %d: %v", s.Src, err)
	}
}

func (n *net) told(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	if got := n.log.take(); got != want {
		t.Fatalf("ranks were told %q, want %q", got, want)
	}
}

// delays are the networks on which every fault is tried.
var delays = []sim.Config{
	{Size: 3},
	{Size: 3, Seed: 1, MinDelay: time.Millisecond, MaxDelay: 5 * time.Millisecond},
	{Size: 3, Seed: 2, MaxDelay: 5 * time.Millisecond, Reorder: true},
}

// everywhere runs a proof in a bubble on every network.
func everywhere(t *testing.T, f func(t *testing.T, n *net)) {
	for _, c := range delays {
		t.Run(fmt.Sprintf("delay=%v/reorder=%v", c.MaxDelay, c.Reorder), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, start(t, c)) })
		})
	}
}

// Frames that a killed rank has sent arrive, then its peers lose it; its own calls fail.
func TestKill(t *testing.T) {
	everywhere(t, func(t *testing.T, n *net) {
		n.send(t, stream(1, 0, 0, 3))
		n.send(t, stream(1, 0, 2, 1))
		n.Kill(1)
		n.expect(t, stream(1, 0, 0, 5), 3, transport.ErrLost)
		n.expect(t, stream(1, 0, 2, 5), 1, transport.ErrLost)
		n.expect(t, stream(1, 2, 0, 5), 0, transport.ErrLost)
		n.told(t, "0 lost rank 1: peer lost; 2 lost rank 1: peer lost")
		if _, err := n.receive(stream(0, 1, 0, 1), second); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("a killed rank's link reports %v", err)
		}
		if err := n.meshes[1].Notify(0, nil); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("a killed rank's note reports %v", err)
		}
		if err := n.meshes[0].Notify(1, nil); !errors.Is(err, transport.ErrLost) {
			t.Errorf("a note to a killed rank reports %v", err)
		}
		n.send(t, stream(0, 2, 0, 1))
		n.expect(t, stream(0, 2, 0, 1), 1, nil)
	})
}

// A rank dies in the middle of what it sends, at the frame that was asked for.
func TestKillAfter(t *testing.T) {
	everywhere(t, func(t *testing.T, n *net) {
		n.send(t, stream(1, 2, 0, 2))
		n.KillAfter(1, 3)
		s := stream(1, 0, 0, 5)
		out := s.Sender(n.meshes[1], transporttest.Plain)
		if err := transporttest.Drive(n.meshes[1], second, out); !errors.Is(err, transport.ErrClosed) || out.Sent() != 3 {
			t.Errorf("sent %d frames and then %v", out.Sent(), err)
		}
		n.expect(t, s, 3, transport.ErrLost)
		n.expect(t, stream(1, 2, 0, 3), 2, transport.ErrLost)
		n.told(t, "0 lost rank 1: peer lost; 2 lost rank 1: peer lost")
	})
}

// Frames that a partition or a silent rank holds back arrive when it is over, and nobody is told of a loss.
func TestSilence(t *testing.T) {
	faults := map[string]func(n *net){
		"partition": func(n *net) { n.Partition([]int{0}, []int{1, 2}) },
		"rest":      func(n *net) { n.Partition([]int{0}) },
		"pause":     func(n *net) { n.Pause(0) },
	}
	for name, silence := range faults {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, n *net) { silent(t, n, silence) })
		})
	}
}

func silent(t *testing.T, n *net, silence func(n *net)) {
	n.send(t, stream(0, 1, 0, 2)) // may be on the way when silence begins
	silence(n)
	n.send(t, stream(0, 1, 1, 3))
	if err := n.meshes[1].Notify(0, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if got, err := n.receive(stream(0, 1, 1, 3), 10*second); got != 0 || err == nil {
		t.Fatalf("%d frames passed, error %v", got, err)
	}
	n.send(t, stream(1, 2, 0, 1))
	n.expect(t, stream(1, 2, 0, 1), 1, nil)
	n.told(t, "")
	n.Heal()
	n.Resume(0)
	n.expect(t, stream(0, 1, 0, 2), 2, nil)
	n.expect(t, stream(0, 1, 1, 3), 3, nil)
	n.told(t, `0 has "hello" from 1`)
}

// A rank that dies or leaves behind a partition is missed when the partition is over.
func TestLossBehindPartition(t *testing.T) {
	everywhere(t, func(t *testing.T, n *net) {
		n.Partition([]int{0}, []int{1, 2})
		n.send(t, stream(1, 0, 0, 3))
		n.Kill(1)
		if err := n.meshes[2].Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(second)
		n.told(t, "")
		n.Heal()
		n.expect(t, stream(1, 0, 0, 5), 3, transport.ErrLost)
		n.expect(t, stream(2, 0, 0, 5), 0, transport.ErrGoodbye)
		n.told(t, "0 lost rank 1: peer lost; 0 lost rank 2: peer closed the group")
	})
}

// Severed ranks lose one another once, and no others.
func TestSever(t *testing.T) {
	everywhere(t, func(t *testing.T, n *net) {
		n.Sever([]int{0, 2}, []int{1})
		n.expect(t, stream(1, 0, 0, 1), 0, transport.ErrLost)
		n.expect(t, stream(0, 1, 0, 1), 0, transport.ErrLost)
		n.expect(t, stream(2, 1, 0, 1), 0, transport.ErrLost)
		n.send(t, stream(0, 2, 0, 1))
		n.expect(t, stream(0, 2, 0, 1), 1, nil)
		n.told(t, "0 lost rank 1: peer lost; 1 lost rank 0: peer lost; 1 lost rank 2: peer lost; 2 lost rank 1: peer lost")
		n.Kill(1)
		time.Sleep(second)
		n.told(t, "")
		n.expect(t, stream(1, 0, 0, 1), 0, transport.ErrLost)
	})
}

// corrupt breaks a frame and returns which part the error is about.
func corrupt(t *testing.T, seed uint64, guarded bool) string {
	n := &net{Net: sim.New(sim.Config{Size: 2, Seed: seed})}
	n.meshes = open(t, n.Net, 2, func(rank int, c *transport.Config) {
		c.Checksum = guarded
		c.Events.Note = func(int, []byte) { n.log.add("note") }
	})
	n.Corrupt(1, 0, 3, 2)
	n.send(t, stream(1, 0, 3, 4))
	n.expect(t, stream(1, 0, 3, 4), 2, transport.ErrCorrupt)
	n.expect(t, stream(1, 0, 0, 1), 0, transport.ErrCorrupt)
	_, err := n.receive(stream(1, 0, 3, 1), second)
	if err := n.meshes[1].Notify(0, nil); err != nil {
		t.Error(err)
	}
	n.told(t, "note")
	return part(err)
}

// A flipped bit is met at its frame; the link reports it for ever, and notes still pass.
func TestCorrupt(t *testing.T) {
	parts := map[string]int{}
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			parts[corrupt(t, seed, seed >= 5)]++
		})
	}
	if parts["header"] < 5 || parts["payload"] == 0 || len(parts) != 2 {
		t.Errorf("of 20 seeds, 5 without a checksum, these parts were met: %v", parts)
	}
}

func part(err error) string {
	for _, word := range []string{"payload", "header"} {
		if strings.Contains(fmt.Sprint(err), word) {
			return word
		}
	}
	return "limits"
}

// TestNotesInOrder lets a note be on its way, late or held, when the network becomes one without delays: the next note
// does not overtake it.
func TestNotesInOrder(t *testing.T) {
	for name, faults := range map[string][2]func(*net){
		"late": {func(n *net) { n.SetDelay(second, second) }, func(n *net) { n.SetDelay(0, 0) }},
		"held": {func(n *net) { n.Pause(0) }, func(n *net) { n.Resume(0) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &net{Net: sim.New(sim.Config{Size: 2})}
				var mu sync.Mutex
				got := ""
				n.meshes = open(t, n.Net, 2, func(_ int, c *transport.Config) {
					c.Events.Note = func(_ int, p []byte) {
						mu.Lock()
						defer mu.Unlock()
						got += string(p)
					}
				})
				faults[0](n)
				require.NoError(t, n.meshes[0].Notify(1, []byte("a")))
				faults[1](n)
				require.NoError(t, n.meshes[0].Notify(1, []byte("b")))
				time.Sleep(2 * second)
				require.NoError(t, n.meshes[0].Notify(1, []byte("c")))
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				require.Equal(t, "abc", got)
			})
		})
	}
}
