package pg

import (
	"fmt"
	"os"

	"github.com/colligo-go/colligo/pg/internal/bootstrap"
)

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
