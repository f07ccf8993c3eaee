package pg

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// lookup reads one environment variable.
type lookup func(string) (string, bool)

// membership is who this process is in the job.
type membership struct {
	rank, size int
	addr       string // host:port of the TCP store
	agentStore bool   // the launcher serves the store
	attempt    string // restarts of the job so far, when the launcher's store outlives them
}

func (m *membership) check() error {
	if m.size < 1 || m.rank < 0 || m.rank >= m.size {
		return fmt.Errorf("rank %d of %d ranks; ranks count from 0", m.rank, m.size)
	}
	return nil
}

// defaultPort is PyTorch's.
const defaultPort = 29500

// launchers lists, in order of precedence, the variables by which a launcher tells rank, size, and the ranks on this host.
// The first whose rank is set is taken. PyTorchJob of Kubeflow sets torchrun's, its successor TrainJob only the last line's.
var launchers = []struct{ name, rank, size, local string }{
	{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"},
	{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
	{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
	{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", ""},
	{"TrainJob", "PET_NODE_RANK", "PET_NNODES", ""},
}

// fromEnvironment reads who this process is from the variables of torchrun (and all that set the same), Open MPI, MPICH,
// Slurm or Kubernetes. MASTER_ADDR and MASTER_PORT, or PET_MASTER_ADDR and PET_MASTER_PORT, say where the ranks meet; if
// they are not set it is the first node under Slurm, and this host if the launcher says that all ranks are on it.
func fromEnvironment(env lookup) (membership, error) {
	m, oneHost, err := numbered(env)
	if err != nil {
		return m, err
	}
	return m, m.locate(env, oneHost)
}

// numbered reads rank and size, and whether all ranks are on this host.
func numbered(env lookup) (m membership, oneHost bool, err error) {
	for _, l := range launchers {
		r, ok := env(l.rank)
		if !ok {
			continue
		}
		if m.rank, err = wholeNumber(l.rank, r); err != nil {
			return m, false, err
		}
		n, ok := env(l.size)
		if !ok {
			return m, false, fmt.Errorf("%s is set but %s is not", l.rank, l.size)
		}
		if m.size, err = wholeNumber(l.size, n); err != nil {
			return m, false, err
		}
		local, _ := env(l.local)
		return m, m.size == 1 || local == n, onePerPod(l.rank, env)
	}
	return m, false, fmt.Errorf("no rank in the environment: set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or start under torchrun, Slurm, mpirun or a PyTorchJob")
}

// onePerPod refuses the variables that Kubernetes sets for torchrun where they ask for several processes in a pod: their
// rank is the pod's, and torchrun, which would number the processes, has not been started.
func onePerPod(rank string, env lookup) error {
	_, launched := env("LOCAL_RANK")
	node, pod := env("PET_NODE_RANK")
	r, _ := env(rank)
	n, err := strconv.Atoi(first(env, "PET_NPROC_PER_NODE")) // else a word such as auto: one process
	if launched || !pod || node != r || err != nil || n <= 1 {
		return nil
	}
	return fmt.Errorf("%s=%s counts pods, and PET_NPROC_PER_NODE asks for %d processes in each: start them with torchrun or colligo run", rank, r, n)
}

// locate finds the TCP store.
func (m *membership) locate(env lookup, oneHost bool) error {
	host, port := first(env, "MASTER_ADDR", "PET_MASTER_ADDR"), first(env, "MASTER_PORT", "PET_MASTER_PORT")
	if host == "" {
		if nodes := first(env, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"); nodes != "" {
			host = firstNode(nodes)
		} else if oneHost {
			host = "localhost"
		} else {
			return fmt.Errorf("MASTER_ADDR is not set")
		}
	}
	p, err := m.port(port, env)
	if err != nil {
		return err
	}
	m.addr = net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(p))
	if agent, _ := env("TORCHELASTIC_USE_AGENT_STORE"); agent == "True" {
		m.agentStore = true
		m.attempt, _ = env("TORCHELASTIC_RESTART_COUNT")
	}
	return nil
}

// port is what was set; under Slurm it is derived from the job so that two jobs on one node do not meet.
func (m *membership) port(set string, env lookup) (int, error) {
	if set == "" {
		if job, err := strconv.Atoi(first(env, "SLURM_JOB_ID")); err == nil {
			return 20000 + job%10000, nil
		}
		return defaultPort, nil
	}
	p, err := wholeNumber("MASTER_PORT", set)
	if err == nil && (p > 65535 || p == 0 && m.size > 1) {
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

func first(env lookup, names ...string) string {
	for _, n := range names {
		if v, ok := env(n); ok && v != "" {
			return v
		}
	}
	return ""
}

func wholeNumber(name, value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("environment variable %s is %q, not a number from 0", name, value)
	}
	return n, nil
}
