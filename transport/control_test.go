package transport

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/testload"
)

type event struct {
	peer int
	note string
	err  error
}

// listen returns a control channel for rank and what it reports.
func listen(rank int) (*Control, chan event) {
	events := make(chan event, 1000)
	c := member(rank)
	c.Events = Events{
		Note: func(peer int, note []byte) { events <- event{peer: peer, note: string(note)} },
		Lost: func(peer int, err error) { events <- event{peer: peer, err: err} },
	}
	return NewControl(c), events
}

func next(t *testing.T, events chan event) event {
	t.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(time.Minute):
		t.Fatal("no event")
		return event{}
	}
}

// noLeak fails the test if goroutines of this package are left at its end.
func noLeak(t *testing.T) {
	t.Cleanup(func() {
		var stacks string
		for range 6000 {
			buf := make([]byte, 1<<20)
			stacks = string(buf[:runtime.Stack(buf, true)])
			if !strings.Contains(stacks, "transport.(*controlPeer)") {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("goroutines left:\n%s", stacks)
	})
}

func TestControlNotes(t *testing.T) {
	noLeak(t)
	d, a := pair(t)
	zero, atZero := listen(0)
	one, atOne := listen(1)
	zero.Add(1, d)
	one.Add(0, a)
	big := strings.Repeat("x", MaxNote)
	for _, note := range []string{"", "hello", big} {
		require.NoError(t, zero.Notify(1, []byte(note)))
		require.Equal(t, event{peer: 0, note: note}, next(t, atOne))
	}
	require.NoError(t, one.Notify(0, []byte("back")))
	require.Equal(t, event{peer: 1, note: "back"}, next(t, atZero))
	require.ErrorContains(t, zero.Notify(1, make([]byte, MaxNote+1)), "limit")
	require.ErrorContains(t, zero.Notify(2, nil), "rank 2: no control connection")
	require.NoError(t, zero.Err(1))

	require.NoError(t, zero.Notify(1, []byte("last"))) // what waits goes out before the goodbye
	require.NoError(t, zero.Close())
	require.Equal(t, event{peer: 0, note: "last"}, next(t, atOne))
	require.Equal(t, event{peer: 0, err: ErrGoodbye}, next(t, atOne))
	require.ErrorIs(t, one.Err(0), ErrGoodbye)
	var pe *PeerError
	require.ErrorAs(t, one.Notify(0, nil), &pe)
	require.ErrorIs(t, pe, ErrGoodbye)
	require.ErrorIs(t, zero.Notify(1, nil), ErrClosed)
	require.ErrorIs(t, zero.Err(1), ErrClosed)
	require.NoError(t, zero.Close())
	require.NoError(t, one.Close())
	require.Empty(t, atZero)
	require.Empty(t, atOne)
}

func TestControlBothClose(t *testing.T) {
	noLeak(t)
	for range 20 {
		d, a := pair(t)
		zero, _ := listen(0)
		one, _ := listen(1)
		zero.Add(1, d)
		one.Add(0, a)
		done := make(chan error)
		go func() { done <- zero.Close() }()
		require.NoError(t, one.Close())
		require.NoError(t, <-done)
	}
}

// TestControlHeldUp has what writes the goodbye be held up for longer than the peers have to take it. They hear it.
func TestControlHeldUp(t *testing.T) {
	noLeak(t)
	d, a := pair(t)
	zero, _ := listen(0)
	one, atOne := listen(1)
	zero.Add(1, d)
	one.Add(0, a)
	zero.mu.Lock()
	zero.sayLast(frameGoodbye, nil)
	time.Sleep(goodbyeLimit * 11 / 10)
	zero.mu.Unlock()
	require.ErrorIs(t, next(t, atOne).err, ErrGoodbye)
	require.NoError(t, zero.Close())
	require.NoError(t, one.Close())
}

// TestControlEndsAtOnce ends channels whose peers hear of it: that does not wait for the limit. A busy machine may hold up an end, but
// hardly each of many.
func TestControlEndsAtOnce(t *testing.T) {
	noLeak(t)
	for name, end := range map[string]func(*Control) error{
		"close":   (*Control).Close,
		"give up": func(c *Control) error { return c.GiveUp("rank 2 is missing") },
	} {
		t.Log(name)
		testload.Soonest(t, 20, goodbyeLimit/2, func() time.Duration {
			d, a := pair(t)
			zero, _ := listen(0)
			one, atOne := listen(1)
			zero.Add(1, d)
			one.Add(0, a)
			require.NoError(t, zero.Notify(1, []byte("last")))
			start := time.Now()
			require.NoError(t, end(zero))
			took := time.Since(start)
			require.Equal(t, event{peer: 0, note: "last"}, next(t, atOne))
			require.NoError(t, one.Close())
			require.NoError(t, zero.Close())
			return took
		})
	}
}

// TestControlGiveUp says why a group did not form, at some length.
func TestControlGiveUp(t *testing.T) {
	noLeak(t)
	d, a := pair(t)
	zero, atZero := listen(0)
	one, atOne := listen(1)
	zero.Add(1, d)
	one.Add(0, a)
	require.NoError(t, zero.GiveUp("rank 2 is missing"))
	e := next(t, atOne)
	require.ErrorIs(t, e.err, ErrLost)
	require.EqualError(t, e.err, "peer lost: gave up: rank 2 is missing")
	require.Equal(t, e.err, one.Err(0))
	require.NoError(t, one.Close())
	require.NoError(t, zero.Close())
	require.Empty(t, atZero)

	d, a = pair(t)
	zero, atZero = listen(0)
	one, _ = listen(1)
	zero.Add(1, d)
	one.Add(0, a)
	require.NoError(t, one.GiveUp(strings.Repeat("x", 3*maxReason)))
	require.EqualError(t, next(t, atZero).err, "peer lost: gave up: "+strings.Repeat("x", maxReason))
	require.NoError(t, zero.Close())
}

func TestControlDeath(t *testing.T) {
	noLeak(t)
	header := func(kind byte, n uint32) []byte { return binary.LittleEndian.AppendUint32([]byte{kind}, n) }
	for _, test := range []struct {
		said []byte
		want string
		is   error
	}{
		{nil, "connection closed without goodbye: the process died", ErrLost},
		{header(frameNote, 5)[:3], "connection closed 3 bytes into a control frame", ErrLost},
		{append(header(frameNote, 5), 'x'), "connection closed 6 bytes into a control frame", ErrLost},
		{append(header(frameGaveUp, 5), 'x'), "connection closed 6 bytes into a control frame", ErrLost},
		{header(frameGaveUp, MaxNote+1), "note of 65537 bytes, the limit is 65536", ErrCorrupt},
		{header(frameNote, MaxNote+1), "note of 65537 bytes, the limit is 65536", ErrCorrupt},
		{[]byte("GET / HTTP/1.1\r\n"), "control frame of kind 71", ErrCorrupt},
		{header(frameGoodbye, 9), "control frame of kind 2", ErrCorrupt},
	} {
		d, a := pair(t)
		zero, events := listen(0)
		zero.Add(1, d)
		_, err := a.Write(test.said)
		require.NoError(t, err)
		a.Close()
		e := next(t, events)
		require.Equal(t, 1, e.peer)
		require.ErrorIs(t, e.err, test.is)
		require.ErrorContains(t, e.err, test.want)
		require.Equal(t, e.err, zero.Err(1))
		require.ErrorIs(t, zero.Notify(1, nil), test.is)
		require.NoError(t, zero.Close())
		require.Empty(t, events)
	}
}

func TestControlReset(t *testing.T) {
	noLeak(t)
	d, a := pair(t)
	zero, events := listen(0)
	zero.Add(1, d)
	a.(*net.TCPConn).SetLinger(0)
	a.Close()
	err := next(t, events).err
	require.ErrorIs(t, err, ErrLost)
	require.ErrorContains(t, err, "connection closed without goodbye: the process died (")
	require.True(t, Gone(err))
	require.NoError(t, zero.Close())
}

// TestControlDeaf has a peer that is there but does not read. Notes are refused when the bound is reached, and nothing
// waits. The peer is not taken for lost, and Close ends.
func TestControlDeaf(t *testing.T) {
	noLeak(t)
	d, a := pair(t)
	d.(*net.TCPConn).SetWriteBuffer(1 << 16)
	a.(*net.TCPConn).SetReadBuffer(1 << 16)
	zero, events := listen(0)
	zero.Add(1, d)
	var err error
	sent := 0
	for start := time.Now(); err == nil && sent < 10000; sent++ {
		err = zero.Notify(1, make([]byte, MaxNote))
		require.Less(t, time.Since(start), time.Minute)
	}
	require.ErrorContains(t, err, "does not read its control channel")
	require.NoError(t, zero.Err(1))
	require.Empty(t, events)
	start := time.Now()
	require.NoError(t, zero.Close())
	require.Less(t, time.Since(start), goodbyeLimit+20*time.Second)
	require.Empty(t, events)
}

func TestControlAdd(t *testing.T) {
	noLeak(t)
	d, a := pair(t)
	zero, _ := listen(0)
	zero.Add(1, d)
	require.Panics(t, func() { zero.Add(1, a) })
	a.Close()
	require.NoError(t, zero.Close())
	d, a = pair(t)
	zero.Add(2, d)
	_, err := a.Read(make([]byte, 1))
	require.Error(t, err, "a connection added after Close is closed")
}

// FuzzControlFrame reads what a hostile peer could write.
func FuzzControlFrame(f *testing.F) {
	f.Add([]byte{frameNote, 2, 0, 0, 0, 'h', 'i'})
	f.Add([]byte{frameGoodbye, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, said []byte) {
		note, err := readFrame(strings.NewReader(string(said)))
		if err == nil {
			require.LessOrEqual(t, len(note), MaxNote)
			require.Equal(t, note, said[frameHead:frameHead+len(note)])
			return
		}
		require.True(t, errors.Is(err, ErrLost) || errors.Is(err, ErrGoodbye) || errors.Is(err, ErrCorrupt))
	})
}

// mute is a connection that takes and gives nothing until its deadlines. A write ends a moment before a read of the same deadline.
type mute struct {
	net.Conn
	mu          sync.Mutex
	read, write time.Time
	closed      bool
}

func (m *mute) SetDeadline(at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read, m.write = at, at
	return nil
}

func (m *mute) SetReadDeadline(at time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read = at
	return nil
}

func (m *mute) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func (m *mute) Read([]byte) (int, error) {
	return m.until(func() time.Time { return m.read })
}

func (m *mute) Write([]byte) (int, error) {
	return m.until(func() time.Time { return m.write.Add(-time.Millisecond) })
}

// until waits for a deadline that has been set.
func (m *mute) until(deadline func() time.Time) (int, error) {
	for ; ; time.Sleep(time.Millisecond) {
		m.mu.Lock()
		closed, end := m.closed, deadline()
		m.mu.Unlock()
		switch {
		case closed:
			return 0, net.ErrClosed
		case end.Year() > 1 && !time.Now().Before(end):
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// TestControlCloseLimit closes while notes wait for a peer that reads nothing: that takes the limit and no more. The failed write that the
// limit ends does not give the reader another one.
func TestControlCloseLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zero, _ := listen(0)
		zero.Add(1, &mute{})
		for range 5 {
			require.NoError(t, zero.Notify(1, make([]byte, MaxNote)))
		}
		start := time.Now()
		require.NoError(t, zero.Close())
		require.Equal(t, goodbyeLimit, time.Since(start))
	})
}
