//go:build unix

package gloo_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// player says to a rank in Go what ranks of PyTorch and their store have said in a recorded job.
type player struct {
	r     *recording
	dials bool // the peers dial the rank, and not the rank them

	mu      sync.Mutex
	errs    []error
	replies map[string][][]byte // by request, those that were not given yet and the last
	seen    map[string]bool     // requests
	own     map[string]published
	came    *sync.Cond // something came: said, or the address of the rank
	said    map[string]*reader
	peers   map[string]net.Listener
	ends    []io.Closer
	all     sync.WaitGroup
}

// reader is what the rank has said over one link so far.
type reader struct {
	intro  []byte
	said   []byte
	wanted map[uint64]int // receives that the rank has told of, by slot
	ended  bool
}

func newPlayer(r *recording, dials bool) (*player, error) {
	p := &player{r: r, dials: dials, replies: map[string][][]byte{}, seen: map[string]bool{}, own: map[string]published{}, said: map[string]*reader{},
		peers: map[string]net.Listener{}}
	p.came = sync.NewCond(&p.mu)
	for _, x := range r.Store {
		q, err := readRequest(strings.NewReader(string(x.Request)))
		if err != nil {
			return nil, err
		}
		p.replies[q.alike()] = append(p.replies[q.alike()], x.Reply)
	}
	for key := range r.Links {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		p.peers[key], p.said[key] = l, &reader{wanted: map[uint64]int{}}
		p.until(l)
	}
	for key, l := range p.peers { // which nobody writes any more
		p.all.Go(func() { p.failed(key, p.link(key, l)) })
	}
	return p, nil
}

func (p *player) failed(what string, err error) {
	if err == nil || errors.Is(err, net.ErrClosed) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, fmt.Errorf("%s: %w", what, err))
}

func (p *player) until(x io.Closer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends = append(p.ends, x)
}

// stop ends what goes on, and returns what was wrong.
func (p *player) stop() error {
	p.mu.Lock()
	for _, x := range p.ends {
		x.Close()
	}
	for _, s := range p.said {
		s.ended = true
	}
	p.came.Broadcast()
	p.mu.Unlock()
	p.all.Wait()
	return errors.Join(p.errs...)
}

// store answers requests as PyTorch's store has.
func (p *player) store(l net.Listener) {
	p.until(l)
	p.all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				p.failed("store", err)
				return
			}
			p.until(conn)
			p.all.Go(func() { p.failed("store", p.answer(conn)) })
		}
	})
}

func (p *player) answer(conn net.Conn) error {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		q, err := readRequest(in)
		if err == io.EOF || errors.Is(err, net.ErrClosed) {
			return nil
		} else if err != nil {
			return err
		}
		reply, err := p.reply(&q)
		if err != nil {
			return err
		}
		if _, err := conn.Write(reply); err != nil {
			return err
		}
	}
}

// reply is what is answered to a request. The recorded rank has made it, too.
func (p *player) reply(q *storeRequest) ([]byte, error) {
	if q.cmd == storeCancel {
		return []byte{1}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.replies[q.alike()]
	if len(known) == 0 {
		return nil, fmt.Errorf("a request that was not recorded: %q", q.alike())
	}
	p.seen[q.alike()] = true
	if len(known) > 1 {
		p.replies[q.alike()] = known[1:]
	}
	switch group, _, ok := linkOf(strings.Join(q.keys, "")); {
	case q.cmd == storePing:
		return q.raw[1:], nil
	case q.cmd == storeSet && ok:
		own, err := cutPublished(q.value)
		p.own[group] = own
		p.came.Broadcast()
		return nil, err
	case q.cmd == storeGet && ok:
		return p.moved(q.keys[0], known[0])
	}
	return known[0], nil
}

// moved is what a peer has published, but for its address.
func (p *player) moved(key string, reply []byte) ([]byte, error) {
	theirs, err := cutPublished(reply[8:])
	if err != nil {
		return nil, err
	}
	at := p.peers[key].Addr().(*net.TCPAddr).AddrPort()
	if p.dials {
		at = netip.MustParseAddrPort("127.0.0.3:1") // larger than the rank's, and nobody dials it
	}
	now := publishes(at, 0)
	now.host, now.ids = theirs.host, theirs.ids
	return stringOf(now.bytes()), nil
}

// link plays one peer.
func (p *player) link(key string, l net.Listener) error {
	conn, err := p.connect(key, l)
	if err != nil {
		return err
	}
	defer conn.Close()
	p.until(conn)
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { p.failed(key, p.listen(key, conn)) })
	messages, err := cutMessages(p.r.Links[key].Heard)
	if err != nil {
		return err
	}
	paid := map[uint64]int{}
	for _, m := range messages {
		if m.op == opPayload {
			if paid[m.slot]++; !p.wants(key, m.slot, paid[m.slot]) {
				return fmt.Errorf("the rank has not received all payloads of slot %#x", m.slot)
			}
		}
		if _, err := conn.Write(m.raw); err != nil {
			return err
		}
	}
	return nil // the rank closes first
}

// connect is the recorded introduction, or its like in the other direction.
func (p *player) connect(key string, l net.Listener) (net.Conn, error) {
	s := p.said[key]
	if !p.dials {
		conn, err := l.Accept()
		if err != nil {
			return nil, err
		}
		s.intro = make([]byte, 8)
		_, err = io.ReadFull(conn, s.intro)
		return conn, err
	}
	group, peer, _ := linkOf(key)
	p.mu.Lock()
	for p.own[group].address == nil && !s.ended {
		p.came.Wait()
	}
	own := p.own[group]
	p.mu.Unlock()
	if own.address == nil {
		return nil, errors.New("the rank has published no address")
	}
	conn, err := net.Dial("tcp", own.at().String())
	if err != nil {
		return nil, err
	}
	_, err = conn.Write(own.ids[8*peer : 8*peer+8])
	return conn, err
}

// listen keeps what the rank says.
func (p *player) listen(key string, conn net.Conn) error {
	s := p.said[key]
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		s.ended = true
		p.came.Broadcast()
	}()
	head := make([]byte, headBytes)
	for in := bufio.NewReader(conn); ; {
		if _, err := io.ReadFull(in, head); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		total := binary.LittleEndian.Uint64(head)
		if total < headBytes || total > maxAsked {
			return fmt.Errorf("a message of %d bytes", total)
		}
		m := append([]byte{}, head...)
		m = append(m, make([]byte, total-headBytes)...)
		if _, err := io.ReadFull(in, m[headBytes:]); err != nil {
			return err
		}
		p.mu.Lock()
		s.said = append(s.said, m...)
		if binary.LittleEndian.Uint64(head[8:]) == opNoticeRecv {
			s.wanted[binary.LittleEndian.Uint64(head[16:])]++
			p.came.Broadcast()
		}
		p.mu.Unlock()
	}
}

// wants waits until the rank has told of so many receives on a slot. It reports false if the connection has ended before.
func (p *player) wants(key string, slot uint64, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.said[key]
	for s.wanted[slot] < n && !s.ended {
		p.came.Wait()
	}
	return s.wanted[slot] >= n
}

// TestReplay has a rank in Go take part in a job of PyTorch 2.6 that was recorded. The others and the store say what they have said then,
// where the rank dials them as it did, and where they dial the rank. It must have the same results, ask the store for the same, and send
// the same bytes on every slot.
func TestReplay(t *testing.T) {
	r, err := loadRecording(recorded)
	require.NoError(t, err)
	for _, dials := range []bool{false, true} {
		t.Run(fmt.Sprintf("peers dial %v", dials), func(t *testing.T) { require.NoError(t, replay(t, r, dials)) })
	}
}

// TestReplayTells changes an operation, a byte that a peer says, and one that the rank is to have said. The replay finds each.
func TestReplayTells(t *testing.T) {
	for what, change := range map[string]func(r *recording, said *link){
		"recorded is result":        func(r *recording, said *link) { said.Heard[payload(t, said.Heard)]++ },
		"other bytes than recorded": func(r *recording, said *link) { said.Sent[8+payload(t, said.Sent[8:])]++ },
		"a request that was not": func(r *recording, _ *link) {
			r.Store = slices.DeleteFunc(r.Store, func(x exchange) bool { return x.Request[0] == storeSet })
		},
		"more than was recorded":     func(_ *recording, said *link) { said.Sent = said.Sent[:8+payload(t, said.Sent[8:])-headBytes] },
		"results, 1 fewer than were": func(r *recording, _ *link) { r.Ops = r.Ops[:len(r.Ops)-1] },
	} {
		r, err := loadRecording(recorded)
		require.NoError(t, err)
		for key, said := range r.Links {
			if _, peer, _ := linkOf(key); peer == 0 && !strings.Contains(key, "//1//") { // of the default group
				change(r, said)
			}
		}
		require.ErrorContains(t, replay(t, r, false), what)
	}
}

// payload returns where the first payload with bytes begins.
func payload(t *testing.T, said []byte) int {
	all, err := cutMessages(said)
	require.NoError(t, err)
	at := 0
	for _, m := range all {
		if m.op == opPayload && m.n > 0 {
			return at + headBytes
		}
		at += len(m.raw)
	}
	require.Fail(t, "no payload")
	return 0
}

// replay plays a recording to a rank in Go, and returns in what the rank has differed.
func replay(t *testing.T, r *recording, dials bool) error {
	path := filepath.Join(t.TempDir(), "ops")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(r.Ops, "\n")+"\n"), 0o600))
	p, err := newPlayer(r, dials)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p.store(l)
	env := rankEnv(r.Torch, r.Rank, r.Size)
	env["MASTER_PORT"] = fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := inGo(ctx, path, env)
	err = errors.Join(err, p.stop())
	if e.code != 0 {
		err = errors.Join(err, fmt.Errorf("exit code %d: %s", e.code, e.out))
	}
	for i, line := range e.lines {
		if i < len(r.Results) && line != r.Results[i] {
			err = errors.Join(err, fmt.Errorf("%s, recorded is %s", line, r.Results[i]))
		}
	}
	if n := len(r.Results) - len(e.lines); n != 0 {
		err = errors.Join(err, fmt.Errorf("results, %d fewer than were recorded", n))
	}
	for request := range p.replies {
		if !p.seen[request] {
			err = errors.Join(err, fmt.Errorf("not asked for: %q", request))
		}
	}
	for key, said := range r.Links {
		err = errors.Join(err, p.differs(key, said))
	}
	return err
}

// differs says in what the rank has said other things over a link than those that are recorded.
func (p *player) differs(key string, recorded *link) error {
	s := p.said[key]
	want, err := kinds(recorded.Sent[8:])
	got, err2 := kinds(s.said)
	err = errors.Join(err, err2)
	if !p.dials && !bytes.Equal(s.intro, recorded.Sent[:8]) {
		err = errors.Join(err, fmt.Errorf("%s: introduces itself by %x, recorded is %x", key, s.intro, recorded.Sent[:8]))
	}
	for k, b := range want {
		if !bytes.Equal(b, got[k]) {
			err = errors.Join(err, fmt.Errorf("%s, slot %#x, opcode %d: other bytes than recorded", key, k.slot, k.op))
		}
		delete(got, k)
	}
	if len(got) > 0 {
		err = errors.Join(err, fmt.Errorf("%s: more than was recorded", key))
	}
	return err
}
