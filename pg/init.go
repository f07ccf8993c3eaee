package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/store/filestore"
	"github.com/colligo-go/colligo/store/tcpstore"
)

// world is what all groups of one Init share. It closes its store when the last of them is closed.
type world struct {
	store    store.Store      // without a group's prefix
	place    string           // of the store, for messages
	probe    string           // host:port whose route tells the network interface
	server   *tcpstore.Server // of the store, on rank 0; else nil
	closes   []func() error
	recorder *flight.Recorder // of all groups, nil if off
	// lasting says that the store may outlive the job.
	lasting bool

	mu     sync.Mutex
	groups int
	open   []*Group // in the order of their making

	monitor monitor
	dumper  dumper
	left    []left // of groups that did not form
}

// left is a key that is still in the store.
type left struct {
	store store.Store
	key   string
}

func (w *world) join() {
	w.mu.Lock()
	w.groups++
	w.mu.Unlock()
}

// add enters a group that has formed.
func (w *world) add(g *Group) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = append(w.open, g)
}

// list returns the groups that are open, in the order of their making.
func (w *world) list() []*Group {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.open)
}

// litter remembers keys of a group that did not form, to be taken out of its store with the last group.
func (w *world) litter(s store.Store, keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		w.left = append(w.left, left{s, key})
	}
}

// leave takes out a group, nil for one that did not form, and after the last closes the store.
func (w *world) leave(g *Group) error {
	w.mu.Lock()
	w.groups--
	last := w.groups == 0
	if i := slices.Index(w.open, g); i >= 0 {
		w.open = slices.Delete(w.open, i, i+1)
	}
	rest := w.left
	w.mu.Unlock()
	if !last {
		return nil
	}
	if w.lasting {
		ctx, cancel := context.WithTimeout(context.Background(), tidyLimit)
		defer cancel()
		for _, l := range rest {
			if _, err := l.store.Delete(ctx, l.key); err != nil {
				break // the store is gone, or will be
			}
		}
	}
	var errs []error
	for _, f := range w.closes {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// lingering is how long a rank that could not join keeps the store up.
const lingering = time.Second

// linger gives the other ranks time to find out themselves what this one knows, before it takes the store along: those
// that are there, and unless they have had their time, those that are on their way.
func (w *world) linger(name string, size int, cause error) {
	if w.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lingering)
	defer cancel()
	if !errors.Is(cause, colligo.ErrTimeout) {
		all := make([]string, size)
		for r := range all {
			all[r] = rankKey(r)
		}
		// If not all come in time the context has ended, and with it what follows.
		_ = store.NewPrefix(storePrefix(name), w.store).Wait(ctx, all...)
	}
	const own = 1 // connection
	for w.server.Clients() > own && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
}

// Init forms the default group: every process of the job calls it once, and it returns when all are linked.
// c10d: init_process_group.
func Init(ctx context.Context, c Config) (*Group, error) {
	if err := c.settle(os.LookupEnv); err != nil {
		return nil, err
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if c.Desc == "" {
		c.Desc = "default_pg"
	}
	if _, err := c.backends(); err != nil {
		return nil, fmt.Errorf("pg: init: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.ConnectTimeout, errConnect)
	defer cancel()
	w, m, err := meet(ctx, &c)
	if err != nil {
		return nil, fmt.Errorf("pg: init: %w", err)
	}
	w.recorder = flight.New(max(c.Watch.Entries, 0), flight.DefaultDepth)
	ranks := make([]int, m.size)
	for r := range ranks {
		ranks[r] = r
	}
	g, err := open(ctx, w, c, origin{name: c.Name, rank: m.rank, ranks: ranks, first: true, barrier: true})
	if err != nil {
		return nil, fmt.Errorf("pg: init: rank %d of %d%s: %w", m.rank, m.size, w.place, err)
	}
	return g, nil
}

var errConnect = fmt.Errorf("connect %w", colligo.ErrTimeout)

// meet finds out who this process is and opens the store.
func meet(ctx context.Context, c *Config) (*world, membership, error) {
	if c.Store != nil {
		m := membership{rank: c.Rank, size: c.Size}
		c.Store.SetTimeout(c.StoreTimeout)
		return &world{store: c.Store, lasting: true}, m, m.check()
	}
	m, u, err := identify(c, os.LookupEnv)
	if err != nil {
		return nil, m, err
	}
	if u.Scheme == "file" {
		return meetInFile(ctx, c, m, u)
	}
	return meetOverTCP(ctx, c, m)
}

// identify takes rank and size from the URL's query, then from Config, then from the environment, and the place to meet
// from the URL.
func identify(c *Config, env lookup) (m membership, u *url.URL, err error) {
	where := c.Init
	if where == "" {
		where = "env://"
	}
	if u, err = url.Parse(where); err != nil {
		return m, nil, fmt.Errorf("%w; want env://, tcp://host:port or file:///path", err)
	}
	if err := checkURL(u); err != nil {
		return m, nil, fmt.Errorf("%q %w", where, err)
	}
	rank, size, err := fromQuery(u)
	if err != nil {
		return m, nil, fmt.Errorf("%q: %w", where, err)
	}
	oneHost := false
	if c.Size > 0 {
		m.rank, m.size = c.Rank, c.Size
	} else if rank == nil || size == nil {
		if m, oneHost, err = numbered(env); err != nil {
			return m, nil, err
		}
	}
	if rank != nil {
		m.rank = *rank
	}
	if size != nil {
		m.size = *size
	}
	if err := m.check(); err != nil {
		return m, nil, err
	}
	m.addr = u.Host
	switch {
	case u.Scheme == "env":
		err = m.locate(env, oneHost)
	case u.Port() == "0" && m.size > 1:
		err = fmt.Errorf("%q names port 0, where %d ranks cannot meet", where, m.size)
	}
	return m, u, err
}

// checkURL says what is wrong with the place that a URL names.
func checkURL(u *url.URL) error {
	switch u.Scheme {
	case "env":
		if u.Host != "" || u.Path != "" {
			return errors.New("names a place, which env:// takes from the environment")
		}
	case "file":
		if u.Host != "" {
			return fmt.Errorf("names the host %q; a path has three slashes before it", u.Host)
		}
		if u.Path == "" {
			return errors.New("names no file")
		}
	case "tcp":
		if u.Hostname() == "" || u.Port() == "" {
			return errors.New("does not name host and port")
		}
		if n, err := strconv.Atoi(u.Port()); err != nil || n > 65535 {
			return fmt.Errorf("names port %s", u.Port())
		}
		if u.Path != "" && u.Path != "/" {
			return fmt.Errorf("names the path %q", u.Path)
		}
	default:
		return errors.New("does not begin with env://, tcp:// or file://")
	}
	return nil
}

// fromQuery takes rank and world_size from a URL, nil where they are missing; other parameters are mistakes.
func fromQuery(u *url.URL) (rank, size *int, err error) {
	query, err := url.ParseQuery(u.RawQuery)
	for key, values := range query {
		if key != "rank" && key != "world_size" {
			return nil, nil, fmt.Errorf("unknown parameter %q; there are rank and world_size", key)
		}
		n, err := strconv.Atoi(values[0])
		if err != nil || n < 0 || len(values) > 1 {
			return nil, nil, fmt.Errorf("%s is %q, not one number from 0", key, values)
		}
		if key == "rank" {
			rank = &n
		} else {
			size = &n
		}
	}
	return rank, size, err
}

func meetInFile(ctx context.Context, c *Config, m membership, u *url.URL) (*world, membership, error) {
	s, err := filestore.Open(ctx, u.Path, filestore.Options{Size: m.size, Timeout: c.StoreTimeout})
	if err != nil {
		return nil, m, err
	}
	return &world{store: s, place: " at " + u.Path, closes: []func() error{s.Close}}, m, nil
}

// meetOverTCP connects to the TCP store. Rank 0 serves it, unless the launcher does.
func meetOverTCP(ctx context.Context, c *Config, m membership) (*world, membership, error) {
	w := &world{place: " at " + m.addr, probe: m.addr, lasting: m.agentStore}
	if m.rank == 0 && !m.agentStore {
		host, port, err := net.SplitHostPort(m.addr)
		if err != nil {
			return nil, m, err
		}
		srv, err := tcpstore.Listen(net.JoinHostPort("", port), tcpstore.ServerOptions{TLS: c.TLS, Logger: c.Log})
		if err != nil {
			return nil, m, err
		}
		w.server, w.closes = srv, append(w.closes, srv.Close)
		m.addr = net.JoinHostPort(host, strconv.Itoa(srv.Port())) // a group of one rank may leave the port to the system
	}
	cl, err := tcpstore.Dial(ctx, m.addr, tcpstore.ClientOptions{WorldSize: m.size, TLS: c.TLS, Timeout: c.StoreTimeout})
	if err != nil {
		if errors.Is(err, store.ErrTimeout) {
			err = &classed{err, colligo.ErrTimeout}
		}
		err = fmt.Errorf("%s cannot be reached: %w", m.serves(), err)
		for _, f := range w.closes {
			err = errors.Join(err, f())
		}
		return nil, m, err
	}
	w.closes = append([]func() error{cl.Close}, w.closes...)
	w.store = cl
	if m.attempt != "" { // a restarted job meets in the agent's store of the run before
		w.store = store.NewPrefix("attempt_"+m.attempt, cl)
	}
	return w, m, nil
}

// serves says whose the TCP store is.
func (m *membership) serves() string {
	if m.agentStore {
		return "the launcher's store at " + m.addr
	}
	return "the store of rank 0 at " + m.addr
}
