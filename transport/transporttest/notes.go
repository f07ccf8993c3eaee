package transporttest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// note returns a note of n bytes that encodes where it comes from and goes to, and its index.
func note(src, dst, i, n int) []byte {
	p := make([]byte, max(n, 12))
	(&Stream{Src: src, Dst: dst, Lane: 100}).Fill(i, p)
	binary.LittleEndian.PutUint32(p, uint32(src))
	binary.LittleEndian.PutUint32(p[4:], uint32(dst))
	binary.LittleEndian.PutUint32(p[8:], uint32(i))
	return p
}

// inbox gathers the events of all ranks.
type inbox struct {
	mu    sync.Mutex
	notes []map[int][][]byte // by rank, by peer
	lost  []map[int][]error  // by rank, by peer
}

func newInbox(size int) *inbox {
	b := &inbox{notes: make([]map[int][][]byte, size), lost: make([]map[int][]error, size)}
	for rank := range size {
		b.notes[rank], b.lost[rank] = map[int][][]byte{}, map[int][]error{}
	}
	return b
}

// events gathers what a rank is told.
func (b *inbox) events(rank int) transport.Events {
	return transport.Events{
		Note: func(peer int, p []byte) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.notes[rank][peer] = append(b.notes[rank][peer], p)
		},
		Lost: func(peer int, err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.lost[rank][peer] = append(b.lost[rank][peer], err)
		},
	}
}

// losses returns how often a rank was told that a peer is gone.
func (b *inbox) losses(rank int) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, list := range b.lost[rank] {
		n += len(list)
	}
	return n
}

// eventually waits until ok says nil, and returns its last error if that takes longer than the limit.
func eventually(ok func() error) error {
	until := time.Now().Add(limit / 3)
	for {
		err := ok()
		if err == nil || time.Now().After(until) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// expect waits until a rank has got notes 0 to n-1 from each peer, in any order, and checks every byte.
func (b *inbox) expect(rank int, counts map[int]int) error {
	return eventually(func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		for peer, n := range counts {
			if got := len(b.notes[rank][peer]); got != n {
				return fmt.Errorf("rank %d has %d notes from rank %d, sent were %d", rank, got, peer, n)
			}
			if err := checkNotes(peer, rank, b.notes[rank][peer]); err != nil {
				return err
			}
		}
		return nil
	})
}

func checkNotes(src, dst int, list [][]byte) error {
	seen := make([]bool, len(list))
	for _, p := range list {
		if len(p) < 12 {
			return fmt.Errorf("rank %d: note of %d bytes from rank %d", dst, len(p), src)
		}
		i := int(binary.LittleEndian.Uint32(p[8:]))
		if i >= len(seen) || seen[i] || !bytes.Equal(p, note(src, dst, i, len(p))) {
			return fmt.Errorf("rank %d: note %d of %d bytes from rank %d is wrong or came twice", dst, i, len(p), src)
		}
		seen[i] = true
	}
	return nil
}

// expectLost waits until a rank has been told once that a peer is gone, because of want.
func (b *inbox) expectLost(rank, peer int, want error) error {
	return eventually(func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		list := b.lost[rank][peer]
		if len(list) != 1 {
			return fmt.Errorf("rank %d was told %d times that rank %d is gone: %v", rank, len(list), peer, list)
		}
		if !errors.Is(list[0], want) {
			return fmt.Errorf("rank %d lost rank %d because of %w, want %w", rank, peer, list[0], want)
		}
		return nil
	})
}

// notes sends notes from several goroutines of every rank to every peer while no rank looks at its links.
func notes(t *testing.T, open Opener) {
	const size, senders, each = 3, 4, 25
	box := newInbox(size)
	k := start(t, open, size, box, small)
	k.together(t, func(rank int, m transport.Mesh) error {
		errs := make([]error, senders)
		var wg sync.WaitGroup
		for g := range senders {
			wg.Go(func() { errs[g] = sendNotes(m, rank, size, g*each, each) })
		}
		wg.Wait()
		return errors.Join(errs...)
	})
	for rank := range size {
		want := map[int]int{}
		for peer := range size {
			if peer != rank {
				want[peer] = senders * each
			}
		}
		if err := box.expect(rank, want); err != nil {
			t.Fatal(err)
		}
	}
}

func sendNotes(m transport.Mesh, rank, size, first, count int) error {
	for i := first; i < first+count; i++ {
		for peer := range size {
			if peer == rank {
				continue
			}
			if err := m.Notify(peer, note(rank, peer, i, 12+i*7)); err != nil {
				return fmt.Errorf("note %d to rank %d: %w", i, peer, err)
			}
		}
	}
	return nil
}

// noteLimits sends an empty note and the largest, and sees a larger one refused without harm.
func noteLimits(t *testing.T, open Opener) {
	box := newInbox(2)
	m := start(t, open, 2, box, nil).meshes[0]
	if err := m.Notify(1, make([]byte, transport.MaxNote+1)); err == nil {
		t.Errorf("a note of %d bytes was taken", transport.MaxNote+1)
	}
	if err := m.Notify(1, note(0, 1, 0, transport.MaxNote)); err != nil {
		t.Fatalf("note of %d bytes: %v", transport.MaxNote, err)
	}
	if err := box.expect(1, map[int]int{0: 1}); err != nil {
		t.Fatal(err)
	}
	if err := m.Notify(1, nil); err != nil {
		t.Fatalf("empty note: %v", err)
	}
	err := eventually(func() error {
		box.mu.Lock()
		defer box.mu.Unlock()
		if list := box.notes[1][0]; len(list) != 2 || len(list[1]) != 0 {
			return fmt.Errorf("no empty note among %d notes", len(list))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// noteMemory overwrites a note as soon as Notify returns, and sends to a rank that has no events.
func noteMemory(t *testing.T, open Opener) {
	box := newInbox(2)
	meshes := open(t, 2, func(rank int, c *transport.Config) {
		if rank == 1 {
			c.Events = box.events(rank)
		}
	})
	p := make([]byte, 500)
	for i := range 20 {
		copy(p, note(0, 1, i, len(p)))
		if err := meshes[0].Notify(1, p); err != nil {
			t.Fatal(err)
		}
		clear(p)
		if err := meshes[1].Notify(0, note(1, 0, i, 12)); err != nil {
			t.Fatal(err)
		}
	}
	if err := box.expect(1, map[int]int{0: 20}); err != nil {
		t.Fatal(err)
	}
}
