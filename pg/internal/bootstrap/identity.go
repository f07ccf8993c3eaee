package bootstrap

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"github.com/colligo-go/colligo/store"
)

// Options say where the ranks of a job meet, and by what rank.
type Options struct {
	URL          string        // "env://" (also when empty), "tcp://host:port", or "file:///path"
	Store        store.Store   // if set it is where the ranks meet, and the caller closes it
	Rank, Size   int           // with Size 0 both come from URL and the environment
	StoreTimeout time.Duration // of one call of the store
	TLS          *tls.Config   // of the TCP store
	Torch        *Torch        // set where the other ranks are PyTorch's
	Log          *slog.Logger
}

// Identity is which rank of the job this process is, and where the job meets.
type Identity struct {
	Rank, Size int
	addr       string // host:port of the TCP store
	agentStore bool   // the launcher serves the store
	attempt    string // restarts of the job so far, when the launcher's store outlives them
}

func (id *Identity) check() error {
	if id.Size < 1 || id.Rank < 0 || id.Rank >= id.Size {
		return fmt.Errorf("rank %d of %d ranks; ranks count from 0", id.Rank, id.Size)
	}
	return nil
}

// serves says whose the TCP store is.
func (id *Identity) serves() string {
	if id.agentStore {
		return "the launcher's store at " + id.addr
	}
	return "the store of rank 0 at " + id.addr
}

// identify takes rank and size from the URL's query, then from Options, then from the environment. The place to meet comes
// from the URL.
func identify(o *Options, env Lookup) (id Identity, u *url.URL, err error) {
	address := o.URL
	if address == "" {
		address = "env://"
	}
	if u, err = url.Parse(address); err != nil {
		return id, nil, fmt.Errorf("%w; want env://, tcp://host:port or file:///path", err)
	}
	if err := checkURL(u); err != nil {
		return id, nil, fmt.Errorf("%q %w", address, err)
	}
	rank, size, err := fromQuery(u)
	if err != nil {
		return id, nil, fmt.Errorf("%q: %w", address, err)
	}
	oneHost := false
	if o.Size > 0 {
		id.Rank, id.Size = o.Rank, o.Size
	} else if rank == nil || size == nil {
		if id, oneHost, err = numbered(env); err != nil {
			return id, nil, err
		}
	}
	if rank != nil {
		id.Rank = *rank
	}
	if size != nil {
		id.Size = *size
	}
	if err := id.check(); err != nil {
		return id, nil, err
	}
	id.addr = u.Host
	switch {
	case u.Scheme == "env":
		err = id.locate(env, oneHost)
	case u.Port() == "0" && id.Size > 1:
		err = fmt.Errorf("%q names port 0, where %d ranks cannot meet", address, id.Size)
	}
	return id, u, err
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
