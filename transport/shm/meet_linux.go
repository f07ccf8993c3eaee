package shm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/colligo-go/colligo/transport"
	"github.com/colligo-go/colligo/transport/internal/peermem"
)

// meeting is how one rank finds its peers: it listens for the higher ranks and dials the lower ones.
type meeting struct {
	m       *mesh
	fd      int // this rank's segment
	own     hello
	results chan met
	wg      sync.WaitGroup

	mu         sync.Mutex // guards stranger, unreadable and attach
	stranger   error      // the last dialer that was not let in
	unreadable []int      // peers whose memory cannot be read
}

// met is a peer that is linked, or the reason why the group cannot form.
type met struct {
	peer    int
	company bool // it is in this process
	cpus    [cpuBytes]byte
	err     error
}

// meet links m with every peer. It ends early when one that is linked already gives up or dies.
func (m *mesh) meet(ctx context.Context, fd int) error {
	if m.c.Size == 1 {
		return nil
	}
	t := &meeting{m: m, fd: fd, results: make(chan met, m.c.Size)}
	t.own = hello{layout: m.layout, cpus: ownCPUs(), token: *ownToken(), at: ownToken().Address()}
	listener, err := t.listen(ctx)
	if err != nil {
		return err
	}
	ctx, m.fail = context.WithCancelCause(ctx)
	if listener != nil {
		t.wg.Go(func() { t.accept(ctx, listener) })
	}
	for peer := range m.c.Rank {
		t.wg.Go(func() { t.dial(ctx, peer) })
	}
	err = t.collect(ctx)
	m.fail(nil)
	if listener != nil {
		listener.Close()
	}
	t.wg.Wait()
	return err
}

// listen opens the socket at which the higher ranks come, and publishes its address. The highest rank has none.
func (t *meeting) listen(ctx context.Context) (*net.UnixListener, error) {
	c := t.m.c
	if c.Rank == c.Size-1 {
		return nil, nil
	}
	var name [16]byte
	rand.Read(name[:]) // never fails
	address := fmt.Sprintf("@colligo-shm-%x", name)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("shm: %w", err)
	}
	if err := c.Rendezvous.Set(ctx, key(c.Rank), []byte(HostID()+"\n"+address)); err != nil {
		listener.Close()
		return nil, fmt.Errorf("shm: rank %d publishes its address: %w", c.Rank, err)
	}
	return listener, nil
}

func key(rank int) string { return fmt.Sprintf("shm/%d", rank) }

// collect waits for all peers or the first failure.
func (t *meeting) collect(ctx context.Context) error {
	linked, cpus := make(map[int]bool), t.own.cpus
	for len(linked) < t.m.c.Size-1 {
		var r met
		select {
		case r = <-t.results:
		case <-ctx.Done():
		}
		if cause := context.Cause(ctx); cause != nil { // what fails then fails because of that
			return t.missing(linked, cause)
		}
		if r.err != nil {
			return r.err
		}
		linked[r.peer] = true
		if t.m.c.Events.Linked != nil {
			t.m.c.Events.Linked(r.peer)
		}
		unite(&cpus, &r.cpus)
		t.m.patience.company = t.m.patience.company || r.company
	}
	t.m.patience.share(t.m.c.Size > count(&cpus))
	t.sayUnreadable()
	return nil
}

// sayUnreadable says once for the mesh that payloads are copied twice.
func (t *meeting) sayUnreadable() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.unreadable) > 0 {
		slices.Sort(t.unreadable)
		t.m.log.Info("the system does not let this rank read the memory of peers (process_vm_readv): their long payloads are copied twice",
			"group", t.m.c.Name, "rank", t.m.c.Rank, "peers", t.unreadable)
	}
}

// missing says which ranks have not come, and which strangers came instead.
func (t *meeting) missing(linked map[int]bool, cause error) error {
	var ranks []string
	for peer := range t.m.c.Size {
		if peer != t.m.c.Rank && !linked[peer] {
			ranks = append(ranks, fmt.Sprint(peer))
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	err := fmt.Errorf("shm: rank %d of %d is not linked with rank %s: %w",
		t.m.c.Rank, t.m.c.Size, strings.Join(ranks, ", "), cause)
	if t.stranger != nil {
		err = fmt.Errorf("%w (not let in: %w)", err, t.stranger)
	}
	return err
}

// accept lets the higher ranks in. At most so many dialers at a time are listened to as there are ranks.
func (t *meeting) accept(ctx context.Context, listener *net.UnixListener) {
	places := make(chan struct{}, t.m.c.Size+16)
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				t.report(ctx, met{err: fmt.Errorf("shm: %w", err)})
			}
			return
		}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			conn.Close()
			return
		}
		t.wg.Go(func() {
			t.admit(ctx, conn)
			<-places
		})
	}
}

// admit runs the acceptor's side for one dialer.
func (t *meeting) admit(ctx context.Context, conn *net.UnixConn) {
	peer, purpose, err := transport.Admit(ctx, conn, t.m.c)
	if refused := (*transport.PeerError)(nil); err != nil && !errors.As(err, &refused) {
		conn.Close()
		t.m.log.Warn("shm: dropped a dialer", "group", t.m.c.Name, "rank", t.m.c.Rank, "error", err)
		t.mu.Lock()
		t.stranger = err
		t.mu.Unlock()
		return
	}
	if err == nil && (peer < t.m.c.Rank || purpose != transport.PurposeControl) {
		err = fmt.Errorf("rank %d dialed for purpose %d", peer, purpose)
	}
	t.finish(ctx, peer, conn, err)
}

// dial runs the dialer's side for one peer.
func (t *meeting) dial(ctx context.Context, peer int) {
	conn, err := t.connect(ctx, peer)
	if err == nil {
		err = transport.Greet(ctx, conn, t.m.c, peer, transport.PurposeControl)
	}
	t.finish(ctx, peer, conn, err)
}

// connect finds a lower rank's socket.
func (t *meeting) connect(ctx context.Context, peer int) (*net.UnixConn, error) {
	value, err := t.m.c.Rendezvous.Get(ctx, key(peer))
	if err != nil {
		return nil, fmt.Errorf("its address: %w", err)
	}
	host, address, _ := strings.Cut(string(value), "\n")
	if own := HostID(); host != own {
		return nil, fmt.Errorf("is on host %q, this rank on %q", host, own)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// finish exchanges segments with a peer, hands the connection to the control channel and reports the peer. It owns the
// connection; with an error there may be none.
func (t *meeting) finish(ctx context.Context, peer int, conn *net.UnixConn, err error) {
	r := met{peer: peer}
	if err == nil {
		err = t.link(ctx, conn, &r)
	}
	if err == nil {
		t.m.control.Add(peer, conn)
	} else {
		if conn != nil {
			conn.Close()
		}
		if named := (*transport.PeerError)(nil); !errors.As(err, &named) {
			if transport.Gone(err) && !errors.Is(err, transport.ErrLost) {
				err = fmt.Errorf("%w: while it joined: %w", transport.ErrLost, err)
			}
			err = &transport.PeerError{Peer: peer, Err: err}
		}
		r.err = fmt.Errorf("shm: rank %d cannot link with %w", t.m.c.Rank, err)
	}
	t.report(ctx, r)
}

// link exchanges segments with the peer of r, maps the peer's, and notes what the peer is.
func (t *meeting) link(ctx context.Context, conn *net.UnixConn, r *met) error {
	theirs, fd, err := swap(ctx, conn, &t.own, t.fd)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	h, err := decode(theirs, t.m.layout)
	if err != nil {
		return err
	}
	if err := checkSegment(fd, t.m.layout.segment()); err != nil {
		return err
	}
	process := processOf(conn)
	r.cpus, r.company = h.cpus, process == os.Getpid()
	reads := peermem.Open(process, h.token, h.at)
	t.mu.Lock() // a peer that comes twice at a time must find itself here
	defer t.mu.Unlock()
	if reads == nil {
		t.unreadable = append(t.unreadable, r.peer)
	}
	return t.m.attach(r.peer, fd, reads)
}

// report hands a result over, or drops it when nobody listens any more.
func (t *meeting) report(ctx context.Context, r met) {
	select {
	case t.results <- r:
	case <-ctx.Done():
	}
}
