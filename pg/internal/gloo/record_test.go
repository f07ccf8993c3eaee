//go:build unix

package gloo_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
)

var record = flag.Bool("record", false, "record the conversation that TestReplay replays, with the Python of COLLIGO_TEST_PYTHON")

// recorded is the file of the recording.
const recorded = "testdata/torch-2.6.gob.gz"

// recorder stands between a rank in Go and the others: the store, which rank 0 of PyTorch serves, and the peers. It has the rank find its
// own listeners in the place of the peers', and keeps all that is said.
type recorder struct {
	store string // address of PyTorch's
	rank  int

	mu    sync.Mutex
	r     *recording
	errs  []error
	all   sync.WaitGroup
	ends  []io.Closer
	peers map[string]net.Listener // by key
}

func (c *recorder) failed(err error) {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "reset by peer") {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

func (c *recorder) until(x io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, x)
}

// serve takes connections and passes each to a function, with one to an address behind it.
func (c *recorder) serve(l net.Listener, behind string, pass func(from, to net.Conn)) {
	c.until(l)
	c.all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				c.failed(err)
				return
			}
			to, err := net.Dial("tcp", behind)
			if err != nil { // the server is not there yet, and the rank tries again
				from.Close()
				continue
			}
			c.until(from)
			c.until(to)
			c.all.Go(func() { pass(from, to) })
		}
	})
}

// attend passes requests to the store and replies back.
func (c *recorder) attend(from, to net.Conn) {
	asked := make(chan storeRequest, 64)
	c.all.Go(func() {
		defer close(asked)
		for in := bufio.NewReader(from); ; {
			q, err := readRequest(in)
			if err != nil {
				c.failed(err)
				to.Close()
				return
			}
			asked <- q
			if _, err := to.Write(q.raw); err != nil {
				c.failed(err)
				return
			}
		}
	})
	cancelled := false
	for in := bufio.NewReader(to); ; {
		q, ok := <-asked
		if !ok {
			return
		}
		if q.cmd == storeCancel && cancelled {
			cancelled = false
			continue
		}
		reply, err := readReply(in, q.cmd)
		if err != nil {
			c.failed(err)
			from.Close()
			continue
		}
		cancelled = q.cmd == storeWait && reply[0] != 0
		if !cancelled && q.cmd != storeCancel {
			c.mu.Lock()
			c.r.Store = append(c.r.Store, exchange{q.raw, reply})
			c.mu.Unlock()
		}
		if q.cmd == storeGet {
			reply, err = c.between(q.keys[0], reply)
			c.failed(err)
		}
		if _, err := from.Write(reply); err != nil {
			c.failed(err)
		}
	}
}

// between puts a listener into the place of the one that a peer has published.
func (c *recorder) between(key string, reply []byte) ([]byte, error) {
	if _, _, ok := linkOf(key); !ok {
		return reply, nil
	}
	p, err := cutPublished(reply[8:])
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	l := c.peers[key]
	c.mu.Unlock()
	if l == nil {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
		said := new(link)
		c.mu.Lock()
		c.peers[key], c.r.Links[key] = l, said
		c.mu.Unlock()
		c.serve(l, p.at().String(), func(from, to net.Conn) {
			c.all.Go(func() { c.copy(to, from, &said.Sent) })
			c.copy(from, to, &said.Heard)
		})
	}
	moved := publishes(l.Addr().(*net.TCPAddr).AddrPort(), 0)
	moved.host, moved.ids = p.host, p.ids
	return stringOf(moved.bytes()), nil
}

// copy passes bytes on and keeps them.
func (c *recorder) copy(to, from net.Conn, kept *[]byte) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		*kept = append(*kept, b[:n]...)
		if _, werr := to.Write(b[:n]); werr != nil {
			err = errors.Join(err, werr)
		}
		if err != nil {
			to.(*net.TCPConn).CloseWrite()
			return
		}
	}
}

func stringOf(b []byte) []byte { return append(words(uint64(len(b)), 8), b...) }

// TestRecord records a job of three ranks, of which one is in Go, with the flag -record. It has every operation, on short tensors.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("-record makes the recording anew")
	}
	eachTorch(t, func(t *testing.T, p *torch) {
		require.True(t, p.has(2, 6) && !p.has(2, 7), "the recording is one of PyTorch 2.6, this is %s", p.version)
		recordOf(t, p)
	})
}

// recordOf records a job with one PyTorch.
func recordOf(t *testing.T, p *torch) {
	const size, rank = 3, 1
	l := &opList{torch: p, size: size}
	l.short(0, 5)
	l.add("all_reduce", "float32", 3001, 0, "sum")
	l.add("all_gather", "int8", 1001, 0, "sum")
	path := filepath.Join(t.TempDir(), "ops")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(l.ops, "\n")+"\n"), 0o600))
	port := freeport.Port(t, "127.0.0.1")
	c := &recorder{store: "127.0.0.1:" + port, rank: rank, peers: map[string]net.Listener{},
		r: &recording{Torch: p.version, Size: size, Rank: rank, Ops: l.ops, Links: map[string]*link{}}}
	between, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c.serve(between, c.store, c.attend)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ranks, errs := make([]ended, size), make([]error, size)
	var all sync.WaitGroup
	for r := range size {
		env := rankEnv(p.version, r, size)
		env["MASTER_PORT"] = port
		run := p.inPython
		if r == rank {
			env["MASTER_PORT"] = fmt.Sprint(between.Addr().(*net.TCPAddr).Port)
			run = inGo
		}
		all.Go(func() { ranks[r], errs[r] = run(ctx, path, env) })
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	for r, e := range ranks {
		require.Zero(t, e.code, "rank %d: %s", r, e.out)
	}
	c.mu.Lock()
	ends := c.ends
	c.mu.Unlock()
	for _, x := range ends {
		x.Close()
	}
	c.all.Wait()
	require.NoError(t, errors.Join(c.errs...))
	c.r.Results = ranks[rank].lines
	require.NoError(t, c.r.save(recorded))
}

// rankEnv is the environment of a rank of a recorded job. The rank in Go has the larger address, and so dials.
func rankEnv(version string, rank, size int) map[string]string {
	return map[string]string{"MASTER_ADDR": "127.0.0.1", "RANK": fmt.Sprint(rank), "WORLD_SIZE": fmt.Sprint(size), "TORCH": version,
		"GLOO_SOCKET_IFNAME": "lo", "GLOO_RANK_INTERFACES": "127.0.0.2", "LIMIT": "60"}
}
