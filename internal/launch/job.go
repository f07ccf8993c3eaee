package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/colligo-go/colligo/store/tcpstore"
)

// DefaultGrace is the time between SIGTERM and SIGKILL where Job leaves it zero.
const DefaultGrace = 10 * time.Second

// DefaultSettle is the time between the first failure and SIGTERM where Job leaves it zero. Ranks hear of a dead one in a
// quarter of a second.
const DefaultSettle = 2 * time.Second

// Job is a program to start once for each rank. The store through which the ranks meet is served by Run.
type Job struct {
	Program string   // looked up in PATH if it has no slash
	Args    []string // without the program's name
	Env     []string // as os.Environ gives it; the variables of the rank are added
	Ranks   int

	// Output returns where a rank's output goes. An *os.File is handed to the process as it is; any other writer is
	// written by one goroutine per stream. Nil drops a stream.
	Output func(rank int) (stdout, stderr io.Writer)
	Grace  time.Duration
	// Settle is how long the other ranks go on when one has failed: to say what they know of it, and write their dumps.
	Settle time.Duration
	// Signals are forwarded to all processes. After one that asks them to end they have the grace period left.
	Signals <-chan os.Signal
}

// Failure is the error of Run when a process failed.
type Failure struct {
	Rank int
	Code int // its exit code, or 128 and the number of the signal that ended it, as shells report it
	Err  error
}

// Error says which rank failed and how.
func (f *Failure) Error() string { return fmt.Sprintf("rank %d: %v", f.Rank, f.Err) }

// Unwrap returns the error of the process.
func (f *Failure) Unwrap() error { return f.Err }

// ending is the end of one process.
type ending struct {
	rank int
	err  error
}

// Run starts all ranks and returns when all have ended. It returns nil if all succeeded, a *Failure of the first that did
// not, or another error if they could not be started. When ctx ends, all are ended, and its cause is the error.
func (j *Job) Run(ctx context.Context) error {
	if j.Ranks < 1 {
		return fmt.Errorf("launch: %d ranks", j.Ranks)
	}
	// Linux ends a child together with the thread that started it (see attributes), so that thread has to last.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	srv, err := serve()
	if err != nil {
		return fmt.Errorf("launch: %w", err)
	}
	ended := make(chan ending, j.Ranks)
	procs, err := j.start(srv.Addr().String(), ended)
	if err != nil {
		signalAll(procs, os.Kill)
		for range procs {
			<-ended
		}
		return errors.Join(fmt.Errorf("launch: %w", err), srv.Close())
	}
	return errors.Join(j.attend(ctx, procs, ended), srv.Close())
}

// serve opens the store on the loopback device, of IPv6 where there is no IPv4.
func serve() (*tcpstore.Server, error) {
	srv, err := tcpstore.Listen("127.0.0.1:0", tcpstore.ServerOptions{})
	if err == nil {
		return srv, nil
	}
	srv, err6 := tcpstore.Listen("[::1]:0", tcpstore.ServerOptions{})
	if err6 != nil {
		return nil, errors.Join(err, err6)
	}
	return srv, nil
}

// start starts the processes. On an error it returns those that run.
func (j *Job) start(addr string, ended chan<- ending) (procs []*exec.Cmd, err error) {
	id := newID()
	for rank := range j.Ranks {
		vars, err := environment(j.Env, addr, id, rank, j.Ranks)
		if err != nil {
			return procs, err
		}
		cmd := exec.Command(j.Program, j.Args...)
		cmd.Env = append(append([]string(nil), j.Env...), vars...)
		cmd.SysProcAttr = attributes()
		cmd.WaitDelay = time.Second // for children of the program that keep its output open
		if j.Output != nil {
			cmd.Stdout, cmd.Stderr = j.Output(rank)
		}
		if err := cmd.Start(); err != nil {
			return procs, fmt.Errorf("start rank %d: %w", rank, err)
		}
		procs = append(procs, cmd)
		go func() { ended <- ending{rank, wait(cmd)} }()
	}
	return procs, nil
}

// wait returns how a process ended. Output that a child of a successful program kept open is no failure of the program.
func wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success() {
		return nil
	}
	return err
}

// attend waits for the processes. When one fails it ends those that do not end by themselves.
func (j *Job) attend(ctx context.Context, procs []*exec.Cmd, ended <-chan ending) error {
	var first error
	var settled <-chan time.Time // set once one has failed
	var expired <-chan time.Time // set once all are asked to end
	stop := func(sig os.Signal) {
		signalAll(procs, sig)
		if expired == nil {
			expired = time.After(cmp.Or(j.Grace, DefaultGrace))
		}
	}
	done := ctx.Done()
	for running := len(procs); running > 0; {
		select {
		case e := <-ended:
			running--
			if e.err != nil && first == nil {
				first = failure(e)
			}
			if e.err != nil && settled == nil {
				settled = time.After(cmp.Or(j.Settle, DefaultSettle))
			}
			if first != nil || expired != nil {
				signalAll(procs[e.rank:e.rank+1], os.Kill) // children that the program left behind
			}
			procs[e.rank] = nil
		case sig := <-j.Signals:
			if asksToEnd(sig) {
				stop(sig)
			} else {
				signalAll(procs, sig)
			}
		case <-done:
			done = nil
			first = cmp.Or(first, context.Cause(ctx))
			stop(syscall.SIGTERM)
		case <-settled:
			if expired == nil {
				stop(syscall.SIGTERM)
			}
		case <-expired:
			signalAll(procs, os.Kill)
		}
	}
	return first
}

func failure(e ending) *Failure {
	f := &Failure{Rank: e.rank, Code: 1, Err: e.err}
	var exit *exec.ExitError
	if !errors.As(e.err, &exit) {
		return f
	}
	f.Code = exit.ExitCode()
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		f.Code = 128 + int(status.Signal())
	}
	return f
}
