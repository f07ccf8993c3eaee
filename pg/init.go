package pg

import (
	"context"
	"fmt"
	"os"

	"github.com/colligo-go/colligo/pg/flight"
	"github.com/colligo-go/colligo/pg/internal/bootstrap"
)

// Init forms the default group of a job. Every process of the job calls it once, and it returns when all are linked. Config
// tells where the ranks meet; its zero value takes that from the environment of a launcher.
//
// The context and Config.ConnectTimeout bound it. An error leaves no group behind, and names the ranks that have not come.
// Settings lists what is read of the environment besides launchers' variables. c10d: init_process_group.
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
	met, id, err := bootstrap.Meet(ctx, c.rendezvous(), os.LookupEnv)
	if err != nil {
		return nil, fmt.Errorf("pg: init: %w", err)
	}
	j := newJob(met, flight.New(max(c.Recorder.Entries, 0), flight.DefaultDepth))
	ranks := bootstrap.AllRanks(id.Size)
	j.ranks = id.Size
	j.names.take(1)
	g, err := open(ctx, j, c, bootstrap.Member{Name: c.Name, Rank: id.Rank, Ranks: ranks, Default: true}, opening{barrier: true})
	if err != nil {
		return nil, fmt.Errorf("pg: init: rank %d of %d%s: %w", id.Rank, id.Size, j.Location(), err)
	}
	return g, nil
}

// rendezvous is the part of a configuration that tells where the ranks meet.
func (c *Config) rendezvous() *bootstrap.Options {
	return &bootstrap.Options{URL: c.Init, Store: c.Store, Rank: c.Rank, Size: c.Size, StoreTimeout: c.StoreTimeout, TLS: c.TLS,
		Torch: c.torch(), Log: c.Log}
}

// LocalRank returns the number of this process among those of its host, from 0, by which a program picks its device. Every
// launcher that Init knows tells it: colligo run and torchrun, Slurm, Open MPI, MPICH, and the jobs of Kubernetes. An
// environment that does not tell it is an error. c10d: get_node_local_rank.
func LocalRank() (int, error) {
	n, err := bootstrap.LocalRank(os.LookupEnv)
	if err != nil {
		err = fmt.Errorf("pg: local rank: %w", err)
	}
	return n, err
}

// LocalSize returns how many processes of the job are on this host. Launchers and errors are those of LocalRank. c10d: the
// variable LOCAL_WORLD_SIZE.
func LocalSize() (int, error) {
	n, err := bootstrap.LocalSize(os.LookupEnv)
	if err != nil {
		err = fmt.Errorf("pg: local size: %w", err)
	}
	return n, err
}
