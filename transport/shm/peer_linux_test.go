package shm

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/testload"
	"github.com/colligo-go/colligo/transport"
)

func TestProcessesPingPong(t *testing.T) {
	dir, count := t.TempDir(), 5000
	peer := launch(t, dir, "echo", 1, 2, count, 8)
	m := openProcess(t, dir, 2, nil)
	var b [8]byte
	for i := range uint64(count) {
		binary.LittleEndian.PutUint64(b[:], i*i)
		require.NoError(t, send(m, 1, 0, i, b[:]))
		require.NoError(t, receive(m, 1, 0, func(h *transport.Header, p []byte) error {
			if h.Call.Seq != i || string(p) != string(b[:]) {
				return fmt.Errorf("echo %d is frame %d, % x", i, h.Call.Seq, p)
			}
			return nil
		}))
	}
	require.NoError(t, m.Close())
	require.NoError(t, peer.Wait())
}

// Both ranks send a stream of frames of all sizes that a seed determines, at the same time on two lanes. They check every
// byte of what comes.
func TestProcessesStream(t *testing.T) {
	dir, count := t.TempDir(), 600
	peer := launch(t, dir, "stream", 1, 2, count, 0)
	m := openProcess(t, dir, 2, nil)
	*childCount = count
	require.NoError(t, streams(m, processConfig(dir, 0, 2)))
	require.NoError(t, m.Close())
	require.NoError(t, peer.Wait())
}

func init() {
	roles["stream"] = streams
	roles["hang"] = func(m transport.Mesh, _ *transport.Config) error {
		for i := range uint64(3) {
			if err := send(m, 0, 0, i, make([]byte, 100)); err != nil {
				return err
			}
		}
		copy(m.Link(0).Slot(0, 100), "half a frame")
		fmt.Println("ready")
		time.Sleep(limit)
		return nil
	}
}

// streams drives both directions of both lanes.
func streams(m transport.Mesh, c *transport.Config) error {
	peer := 1 - c.Rank
	var sent, got [2]int
	for idle := 1; sent[0]+sent[1]+got[0]+got[1] < 4**childCount; idle++ {
		for lane := range 2 {
			put, err := offer(m.Link(peer), c.Rank, lane, sent[lane])
			if err != nil {
				return err
			}
			sent[lane] += put
			took, err := take(m.Link(peer), peer, lane, got[lane])
			if err != nil {
				return err
			}
			got[lane] += took
			if put+took > 0 {
				idle = 0
			}
		}
		if idle > 0 {
			m.Wait(idle, time.Time{})
		}
	}
	return nil
}

// offer sends frame i of a lane if it is taken, and says how many were.
func offer(l transport.Link, rank, lane, i int) (int, error) {
	if i == *childCount {
		return 0, nil
	}
	p := pattern(rank, lane, i, l.MaxFrame())
	if ok, err := l.Send(&transport.Header{Lane: uint16(lane), Len: uint32(len(p))}, p); !ok {
		return 0, err
	}
	return 1, nil
}

// take receives frame i of a lane if it is there, compares it, and says how many there were.
func take(l transport.Link, peer, lane, i int) (int, error) {
	if i == *childCount {
		return 0, nil
	}
	h, err := l.Head(lane)
	if h == nil {
		return 0, err
	}
	p, _, err := l.Body(lane, make([]byte, h.Len))
	if err != nil {
		return 0, err
	}
	if want := pattern(peer, lane, i, l.MaxFrame()); string(p) != string(want) {
		return 0, fmt.Errorf("frame %d of lane %d has %d bytes that are not the %d sent", i, lane, len(p), len(want))
	}
	l.Release(lane)
	return 1, nil
}

// pattern is frame i of a rank on a lane.
func pattern(rank, lane, i, most int) []byte {
	r := rand.New(rand.NewPCG(uint64(rank)<<8|uint64(lane), uint64(i)))
	n := r.IntN(20)
	if i%4 == 0 {
		n = r.IntN(most + 1)
	}
	p := make([]byte, n)
	for k := range p {
		p[k] = byte(k*7 + i + n + 31*lane + 97*rank)
	}
	return p
}

// A peer is killed. Frames that it had sent can be taken, then the link says at once which rank is lost. Nothing is left of
// it.
func TestKilledPeerIsLost(t *testing.T) {
	before := held(t)
	testload.Soonest(t, 3, 2*time.Second, func() (took time.Duration) {
		t.Run("kill", func(t *testing.T) { took = killed(t) })
		return took
	})
	files, err := filepath.Glob("/dev/shm/*colligo*")
	require.NoError(t, err)
	require.Empty(t, files)
	settled(t, before)
}

// killed returns how long after the kill of a peer a receive said that it is lost.
func killed(t *testing.T) time.Duration {
	dir, lost := t.TempDir(), make(chan error, 1)
	peer := launch(t, dir, "hang", 1, 2, 0, 0)
	m := openProcess(t, dir, 2, func(c *transport.Config) {
		c.Events.Lost = func(rank int, err error) { lost <- &transport.PeerError{Peer: rank, Err: err} }
	})
	_, err := peer.stdout.ReadString('\n')
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, receive(m, 1, 0, func(*transport.Header, []byte) error { return nil }))
	}
	at := make(chan time.Time, 1)
	time.AfterFunc(20*time.Millisecond, func() {
		at <- time.Now()
		_ = peer.Process.Kill()
	})
	err = receive(m, 1, 0, nil) // sleeps until the peer dies
	told := <-lost
	took := time.Since(<-at)
	t.Logf("lost %v after the kill", took)
	require.ErrorIs(t, err, transport.ErrLost)
	var named *transport.PeerError
	require.ErrorAs(t, err, &named)
	require.Equal(t, 1, named.Peer)
	require.ErrorIs(t, told, transport.ErrLost)
	_, again := m.Link(1).Send(&transport.Header{}, nil)
	require.Equal(t, err, again)
	return took
}

// A stopped process is slow, not lost.
func TestStoppedPeerIsNotLost(t *testing.T) {
	dir := t.TempDir()
	peer := launch(t, dir, "echo", 1, 2, 2, 8)
	m := openProcess(t, dir, 2, nil)
	nothing := func(*transport.Header, []byte) error { return nil }
	require.NoError(t, send(m, 1, 0, 0, make([]byte, 8)))
	require.NoError(t, receive(m, 1, 0, nothing))
	require.NoError(t, peer.Process.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", peer.Process.Pid))
		return err == nil && strings.Contains(string(status), "State:\tT")
	}, limit, time.Millisecond)
	require.NoError(t, send(m, 1, 0, 0, make([]byte, 8)))
	until := time.Now().Add(300 * time.Millisecond)
	for idle := 1; time.Now().Before(until); idle++ {
		h, err := m.Link(1).Head(0)
		require.NoError(t, err)
		require.Nil(t, h)
		m.Wait(idle, until)
	}
	require.NoError(t, peer.Process.Signal(syscall.SIGCONT))
	require.NoError(t, receive(m, 1, 0, nothing))
}

// More ranks than this machine has cores.
func TestEightProcesses(t *testing.T) {
	dir, size, count := t.TempDir(), 8, 300
	var peers []*process
	for rank := 1; rank < size; rank++ {
		peers = append(peers, launch(t, dir, "tokens", rank, size, count, 8))
	}
	*childCount = count
	m := openProcess(t, dir, size, nil)
	require.NoError(t, tokens(m, processConfig(dir, 0, size)))
	for i, p := range peers {
		require.NoError(t, p.Wait(), "rank %d", i+1)
	}
	require.NoError(t, m.Close())
}

func TestTwoGroupsAtOnce(t *testing.T) {
	count := 2000
	*childCount = count
	done := make(chan error, 2)
	for range 2 {
		dir := t.TempDir()
		launch(t, dir, "tokens", 1, 2, count, 8)
		m := openProcess(t, dir, 2, nil)
		go func() { done <- tokens(m, processConfig(dir, 0, 2)) }()
	}
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

// A rank with another secret is not let in; the group still forms when the right one comes.
func TestStrangerIsNotLetIn(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var m transport.Mesh
	opened := make(chan error, 1)
	go func() {
		var err error
		m, err = Open(ctx, processConfig(dir, 0, 2))
		opened <- err
	}()
	stranger := processConfig(dir, 1, 2)
	stranger.Secret = []byte("another secret")
	_, err := Open(ctx, stranger)
	require.ErrorContains(t, err, "rank 1 cannot link with rank 0")
	require.ErrorContains(t, err, "another secret")
	launch(t, dir, "tokens", 1, 2, 1, 8)
	*childCount = 1
	require.NoError(t, <-opened)
	require.NoError(t, tokens(m, processConfig(dir, 0, 2)))
	require.NoError(t, m.Close())
}
