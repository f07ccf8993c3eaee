package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/store/filestore"
	"github.com/colligo-go/colligo/store/tcpstore"
)

// Meet finds out which rank this process is and opens the store of the job.
func Meet(ctx context.Context, o *Options, env Lookup) (*Job, Identity, error) {
	if o.Store != nil {
		id := Identity{Rank: o.Rank, Size: o.Size}
		o.Store.SetTimeout(o.StoreTimeout)
		return &Job{store: o.Store, lasting: true}, id, id.check()
	}
	id, u, err := identify(o, env)
	if err != nil {
		return nil, id, err
	}
	var j *Job
	if u.Scheme == "file" {
		j, err = meetInFile(ctx, o, &id, u)
	} else {
		j, err = meetOverTCP(ctx, o, &id)
	}
	return j, id, err
}

func meetInFile(ctx context.Context, o *Options, id *Identity, u *url.URL) (*Job, error) {
	s, err := filestore.Open(ctx, u.Path, filestore.Options{Size: id.Size, Timeout: o.StoreTimeout})
	if err != nil {
		return nil, err
	}
	return &Job{store: o.within(s), location: " at " + u.Path, closes: []func() error{s.Close}}, nil
}

// meetOverTCP connects to the TCP store. Rank 0 serves it, unless the launcher does.
func meetOverTCP(ctx context.Context, o *Options, id *Identity) (*Job, error) {
	j := &Job{location: " at " + id.addr, probe: id.addr, lasting: id.agentStore, served: !id.agentStore}
	if id.Rank == 0 && !id.agentStore {
		host, port, err := net.SplitHostPort(id.addr)
		if err != nil {
			return nil, err
		}
		srv, err := tcpstore.Listen(net.JoinHostPort("", port), o.server())
		if err != nil {
			return nil, err
		}
		j.server, j.closes = srv, append(j.closes, srv.Close)
		id.addr = net.JoinHostPort(host, strconv.Itoa(srv.Port())) // a group of one rank may leave the port to the system
	}
	var last lastError
	stop := SayWhile(ctx, o.Log, "cannot reach the store yet", func(context.Context) []any {
		return []any{"group", "of " + strconv.Itoa(id.Size) + " ranks", "rank", id.Rank, "store", id.serves(), "error", last.text()}
	})
	client := o.client(id.Size)
	client.Failed = last.set
	cl, err := tcpstore.Dial(ctx, id.addr, client)
	stop()
	if err != nil {
		if errors.Is(err, store.ErrTimeout) {
			err = &timedOut{err}
		}
		err = fmt.Errorf("%s cannot be reached: %w", id.serves(), err)
		for _, f := range j.closes {
			err = errors.Join(err, f())
		}
		return nil, err
	}
	j.closes = append([]func() error{cl.Close}, j.closes...)
	j.store = o.within(o.ofAttempt(cl, id.attempt))
	return j, nil
}

// timedOut makes an error of the store a timeout of the group, without changing its text.
type timedOut struct{ err error }

// Error is the store's.
func (e *timedOut) Error() string { return e.err.Error() }

// Unwrap returns both.
func (e *timedOut) Unwrap() []error { return []error{colligo.ErrTimeout, e.err} }
