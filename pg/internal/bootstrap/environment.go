package bootstrap

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Lookup reads one environment variable.
type Lookup func(string) (string, bool)

// First returns the first of some variables that is set to more than nothing, else nothing.
func (env Lookup) First(names ...string) string {
	for _, n := range names {
		if v, ok := env(n); ok && v != "" {
			return v
		}
	}
	return ""
}

// defaultPort is PyTorch's.
const defaultPort = 29500

// launchers lists, in order of precedence, the rank environments: the variables by which a launcher tells rank, size, and
// the ranks on this host. The first line whose rank is set is taken. PyTorchJob of Kubeflow sets torchrun's variables, its
// successor TrainJob only the last line's.
var launchers = []struct{ name, rank, size, local, localRank string }{
	{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK"},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
	{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
	{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "", "SLURM_LOCALID"},
	{"TrainJob", "PET_NODE_RANK", "PET_NNODES", "", ""},
}

// numbered reads rank and size, and whether all ranks are on this host.
func numbered(env Lookup) (id Identity, oneHost bool, err error) {
	for _, l := range launchers {
		r, ok := env(l.rank)
		if !ok {
			continue
		}
		if id.Rank, err = wholeNumber(l.rank, r); err != nil {
			return id, false, err
		}
		n, ok := env(l.size)
		if !ok {
			return id, false, fmt.Errorf("%s is set but %s is not", l.rank, l.size)
		}
		if id.Size, err = wholeNumber(l.size, n); err != nil {
			return id, false, err
		}
		local, _ := env(l.local)
		return id, id.Size == 1 || local == n, onePerPod(l.rank, env)
	}
	return id, false, fmt.Errorf("no rank in the environment: set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or start under torchrun, Slurm, mpirun or a PyTorchJob")
}

// onePerPod refuses the variables that Kubernetes sets for torchrun where they ask for several processes in a pod. Their
// rank is the pod's, and torchrun, which would number the processes, has not been started.
func onePerPod(rank string, env Lookup) error {
	_, launched := env("LOCAL_RANK")
	node, pod := env("PET_NODE_RANK")
	r, _ := env(rank)
	n, err := strconv.Atoi(env.First("PET_NPROC_PER_NODE")) // else a word such as auto: one process
	if launched || !pod || node != r || err != nil || n <= 1 {
		return nil
	}
	return fmt.Errorf("%s=%s counts pods, and PET_NPROC_PER_NODE asks for %d processes in each: start them with torchrun or colligo run", rank, r, n)
}

// locate finds the TCP store. MASTER_ADDR and MASTER_PORT, or PET_MASTER_ADDR and PET_MASTER_PORT, tell where it is. Without
// an address it is on the first node under Slurm, and on this host if the launcher says that all ranks are on it.
func (id *Identity) locate(env Lookup, oneHost bool) error {
	host, port := env.First("MASTER_ADDR", "PET_MASTER_ADDR"), env.First("MASTER_PORT", "PET_MASTER_PORT")
	if host == "" {
		if nodes := env.First("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"); nodes != "" {
			host = firstNode(nodes)
		} else if oneHost {
			host = "localhost"
		} else {
			return fmt.Errorf("MASTER_ADDR is not set")
		}
	}
	p, err := id.port(port, env)
	if err != nil {
		return err
	}
	id.addr = net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(p))
	if agent, _ := env("TORCHELASTIC_USE_AGENT_STORE"); agent == "True" {
		id.agentStore = true
		id.attempt, _ = env("TORCHELASTIC_RESTART_COUNT")
	}
	return nil
}

// port returns the port that was set. Under Slurm it is derived from the job, so that two jobs on one node do not meet.
func (id *Identity) port(set string, env Lookup) (int, error) {
	if set == "" {
		if job, err := strconv.Atoi(env.First("SLURM_JOB_ID")); err == nil {
			return 20000 + job%10000, nil
		}
		return defaultPort, nil
	}
	p, err := wholeNumber("MASTER_PORT", set)
	if err == nil && (p > 65535 || p == 0 && id.Size > 1) {
		err = fmt.Errorf("MASTER_PORT is %d", p)
	}
	return p, err
}

// firstNode returns the first name of a Slurm node list such as "gpu[03-07,9],login1" or "rack[1-2]n[1-8]".
func firstNode(list string) string {
	name, rest, found := strings.Cut(list, "[")
	if before, _, more := strings.Cut(name, ","); more {
		return before
	}
	if !found {
		return name
	}
	inside, after, _ := strings.Cut(rest, "]")
	if end := strings.IndexAny(inside, "-,"); end >= 0 {
		inside = inside[:end]
	}
	return name + inside + firstNode(after)
}

func wholeNumber(name, value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("environment variable %s is %q, not a number from 0", name, value)
	}
	return n, nil
}
