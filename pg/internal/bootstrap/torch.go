package bootstrap

import (
	"github.com/colligo-go/colligo/store"
	"github.com/colligo-go/colligo/store/tcpstore"
)

// Torch is what ranks of PyTorch expect of the store in which a job meets.
type Torch struct {
	Dialect tcpstore.Dialect
	NoPing  bool // servers do not know the ping
	// FreshStore says that a launcher serves a restarted job a store of its own.
	FreshStore bool
}

// server returns the options of a server for these ranks. PyTorch's clients speak no TLS.
func (o *Options) server() tcpstore.ServerOptions {
	if o.Torch != nil {
		return tcpstore.ServerOptions{Logger: o.Log, Dialect: o.Torch.Dialect}
	}
	return tcpstore.ServerOptions{TLS: o.TLS, Logger: o.Log, Presence: presence()}
}

// client returns the options of a client of a job of so many ranks.
func (o *Options) client(size int) tcpstore.ClientOptions {
	if o.Torch != nil {
		return tcpstore.ClientOptions{WorldSize: size, Timeout: o.StoreTimeout, Dialect: o.Torch.Dialect, NoPing: o.Torch.NoPing}
	}
	return tcpstore.ClientOptions{WorldSize: size, TLS: o.TLS, Timeout: o.StoreTimeout}
}

// within returns the part of a store that a job of PyTorch uses where it has not been given the store by the program.
func (o *Options) within(s store.Store) store.Store {
	if o.Torch == nil {
		return s
	}
	return store.NewPrefix("default_pg", s)
}

// ofAttempt returns the part of a launcher's store that an attempt to run the job uses, for the store can outlive attempts.
func (o *Options) ofAttempt(s store.Store, attempt string) store.Store {
	switch {
	case attempt == "" || o.Torch != nil && o.Torch.FreshStore:
		return s
	case o.Torch != nil:
		return store.NewPrefix("/worker/attempt_"+attempt, s)
	}
	return store.NewPrefix("attempt_"+attempt, s)
}

// Store returns the part of the store that all groups of the job share.
func (j *Job) Store() store.Store { return j.store }
