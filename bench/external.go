package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/colligo-go/colligo/internal/launch"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/plan"
)

// Libraries that -compare can start in processes of their own.
const (
	openMPI = "openmpi"
	gloo    = "gloo"
)

//go:embed external/openmpi.c
var openMPISource []byte

//go:embed external/gloo.py
var glooSource []byte

const (
	startLimit  = 2 * time.Minute // for the processes of another library to be there
	finishLimit = 10 * time.Second
	dirMode     = 0o700
	fileMode    = 0o644
)

// external is a library that runs in as many processes as the group has ranks, on this machine. Rank 0 of the group starts them
// and tells each what to do over a Unix socket. Between two orders they sleep in the kernel, so that they take no time from
// colligo. Other ranks have an external without processes.
type external struct {
	name      string // such as "Open MPI v4.1.4, btl self,tcp"
	dir       string // of the socket and the program
	processes []*exec.Cmd
	output    *launch.Tail
	ranks     []*remote
	ended     chan error
	stop      context.CancelFunc
	refused   map[string]bool // collectives that it lacks, each told of once
}

// remote is one process of the other library: one rank.
type remote struct {
	conn  net.Conn
	lines *bufio.Reader
}

// isExternal reports whether -compare names a library with processes of its own.
func (o *options) isExternal() bool { return o.compare == openMPI || o.compare == gloo }

// openExternal starts the library's processes on rank 0.
func (o *options) openExternal(ctx context.Context, g *pg.Group, p process) (*external, error) {
	medium := g.Transport()
	if g.Rank() != 0 {
		return &external{}, nil
	}
	dir, err := os.MkdirTemp("", "colligo-bench-")
	if err != nil {
		return nil, err
	}
	x := &external{dir: dir, output: &launch.Tail{Limit: keptOutput}, ended: make(chan error, o.ranks), refused: map[string]bool{}}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		return x, err
	}
	defer l.Close()
	commands, err := o.externalCommands(ctx, dir, l.Addr().String(), medium)
	if err == nil {
		err = x.start(ctx, commands, p)
	}
	if err == nil {
		err = x.accept(l, o.ranks)
	}
	if err != nil {
		return x, errors.Join(fmt.Errorf("-compare %s: %w", o.compare, err), x.close())
	}
	if o.compare == openMPI {
		x.name += ", btl " + openMPIMedium(x.name, medium)
	}
	return x, nil
}

// externalCommands returns the command lines that start the processes.
func (o *options) externalCommands(ctx context.Context, dir, socket, medium string) ([][]string, error) {
	if o.compare == openMPI {
		return o.mpirunCommand(ctx, dir, socket, medium)
	}
	program, meeting := filepath.Join(dir, "gloo.py"), filepath.Join(dir, "meeting")
	if err := os.WriteFile(program, glooSource, fileMode); err != nil {
		return nil, err
	}
	var all [][]string
	for rank := range o.ranks {
		all = append(all, append(strings.Fields(o.python), program, socket, meeting, strconv.Itoa(rank), strconv.Itoa(o.ranks)))
	}
	return all, nil
}

// start starts processes that end with the context, or by close.
func (x *external) start(ctx context.Context, commands [][]string, p process) error {
	ctx, x.stop = context.WithCancel(ctx)
	for _, line := range commands {
		c := exec.CommandContext(ctx, line[0], line[1:]...)
		c.Stdout, c.Stderr, c.WaitDelay = x.output, x.output, finishLimit
		c.Env = append(slices.Clone(p.environ), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
		if p.getenv("GLOO_SOCKET_IFNAME") == "" {
			c.Env = append(c.Env, "GLOO_SOCKET_IFNAME=lo")
		}
		if err := c.Start(); err != nil {
			return err
		}
		x.processes = append(x.processes, c)
		go func() { x.ended <- c.Wait() }()
	}
	return nil
}

// accept waits until every process has said which rank it is.
func (x *external) accept(l net.Listener, ranks int) error {
	x.ranks = make([]*remote, ranks)
	arrived := make(chan error, ranks)
	go func() {
		for range ranks {
			conn, err := l.Accept()
			if err == nil {
				err = x.admit(conn)
			}
			arrived <- err
		}
	}()
	limit := time.After(startLimit)
	for range ranks {
		var err error
		select {
		case err = <-arrived:
		case err = <-x.ended:
			x.ended <- err // for close
			err = fmt.Errorf("a process ended early: %w", errors.Join(err, x.said()))
		case <-limit:
			err = fmt.Errorf("its processes were not ready after %v: %w", startLimit, x.said())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// said is the end of the processes' output as an error.
func (x *external) said() error {
	if text := x.output.String(); text != "" {
		return fmt.Errorf("output:\n%s", indent(text))
	}
	return errors.New("no output")
}

// admit takes the line with which a process begins.
func (x *external) admit(conn net.Conn) error {
	r := &remote{conn, bufio.NewReader(conn)}
	line, err := r.lines.ReadString('\n')
	if err != nil {
		return err
	}
	rank, name, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "rank ")), " of ")
	i, err := strconv.Atoi(rank)
	if err != nil || i < 0 || i >= len(x.ranks) || x.ranks[i] != nil {
		return fmt.Errorf("unexpected %q", line)
	}
	x.ranks[i], x.name = r, name
	return nil
}

// errLacks is wrapped where the library has no such operation.
var errLacks = errors.New("has no such operation")

// order has every process carry out one line, and returns their numbers by rank.
func (x *external) order(line string) ([]int64, error) {
	for rank, r := range x.ranks {
		if _, err := fmt.Fprintln(r.conn, line); err != nil {
			return nil, fmt.Errorf("%s: rank %d: %w", x.name, rank, err)
		}
	}
	var all []int64
	var lacks error
	for rank, r := range x.ranks {
		answer, err := r.lines.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("%s: rank %d: %w", x.name, rank, errors.Join(err, x.said()))
		}
		verb, rest, _ := strings.Cut(strings.TrimSpace(answer), " ")
		n, err := strconv.ParseInt(rest, 10, 64)
		switch {
		case verb == "no":
			lacks = fmt.Errorf("%s %w: %s", x.name, errLacks, rest)
		case verb != "ok" || err != nil:
			return nil, fmt.Errorf("%s: rank %d answers %q to %q", x.name, rank, answer, line)
		}
		all = append(all, n)
	}
	return all, lacks
}

// operation names what a binding does, as the processes read it.
func (b *binding) operation() string {
	op := b.opName()
	if b.coll == plan.Barrier {
		op = "none"
	}
	return fmt.Sprintf("%s %v %s %d %d", b.name, b.dtype, op, b.root, b.count)
}

// time returns how long the slowest process takes for n operations.
func (x *external) time(b *binding, n int) (time.Duration, error) {
	all, err := x.order(fmt.Sprintf("time %s %d", b.operation(), n))
	var slowest int64
	for _, ns := range all {
		slowest = max(slowest, ns)
	}
	return time.Duration(slowest), err
}

// check returns how many elements of one result are wrong.
func (x *external) check(b *binding) (wrong int64, err error) {
	all, err := x.order("check " + b.operation())
	for _, n := range all {
		wrong += n
	}
	return wrong, err
}

// right fails if a result is wrong.
func (x *external) right(b *binding) error {
	wrong, err := x.check(b)
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%s has %d %w", x.name, wrong, errWrong)
	}
	return err
}

// close ends the processes: by the end of their sockets, and if that does not help by force.
func (x *external) close() error {
	if x == nil || x.dir == "" {
		return nil
	}
	for _, r := range x.ranks {
		if r != nil {
			r.conn.Close()
		}
	}
	if x.stop != nil {
		force := time.AfterFunc(finishLimit, x.stop)
		if len(x.ranks) == 0 || x.ranks[0] == nil {
			x.stop() // they were never ready, and wait for something else
		}
		for range x.processes {
			<-x.ended // how they end does not change what was measured
		}
		force.Stop()
		x.stop()
	}
	err := os.RemoveAll(x.dir)
	x.dir = ""
	return err
}
