package bootstrap

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// LocalRank returns the number of this process among those of its host, as the launcher tells it.
func LocalRank(env Lookup) (int, error) {
	for _, l := range launchers {
		if _, ok := env(l.rank); !ok {
			continue
		}
		if v, ok := env(l.localRank); ok && l.localRank != "" {
			return wholeNumber(l.localRank, v)
		}
		if err := onePod(l.rank, env); err != nil {
			return 0, err
		}
		return 0, nil
	}
	return 0, errNoLocal
}

// LocalSize returns how many processes of the job are on this host, as the launcher tells it.
func LocalSize(env Lookup) (int, error) {
	for _, l := range launchers {
		if _, ok := env(l.rank); !ok {
			continue
		}
		if v, ok := env(l.local); ok && l.local != "" {
			return wholeNumber(l.local, v)
		}
		if l.name == "Slurm" {
			return tasksHere(env)
		}
		if err := onePod(l.rank, env); err != nil {
			return 0, err
		}
		return 1, nil
	}
	return 0, errNoLocal
}

var errNoLocal = errors.New("no rank in the environment: start under colligo run, torchrun, Slurm, mpirun, a PyTorchJob or a TrainJob, or set LOCAL_RANK and LOCAL_WORLD_SIZE with RANK")

// onePod returns nil where the launcher starts one process in each pod, as PyTorchJob and TrainJob do.
func onePod(rank string, env Lookup) error {
	if err := onePerPod(rank, env); err != nil {
		return err
	}
	if _, pod := env("PET_NODE_RANK"); !pod {
		return fmt.Errorf("%s is set, but LOCAL_RANK and LOCAL_WORLD_SIZE are not", rank)
	}
	return nil
}

// tasksHere reads from Slurm how many tasks of the step are on this node. A list such as "4(x2),3" has them by node.
func tasksHere(env Lookup) (int, error) {
	node, err := wholeNumber("SLURM_NODEID", env.First("SLURM_NODEID"))
	if err != nil {
		return 0, err
	}
	list := env.First("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
	for part := range strings.SplitSeq(list, ",") {
		tasks, times, repeated := strings.Cut(part, "(x")
		n, err := strconv.Atoi(tasks)
		count := 1
		if repeated && err == nil {
			count, err = strconv.Atoi(strings.TrimSuffix(times, ")"))
		}
		if err != nil || n < 0 || count < 1 {
			break
		}
		if node < count {
			return n, nil
		}
		node -= count
	}
	return 0, fmt.Errorf("environment variable SLURM_STEP_TASKS_PER_NODE is %q, which does not tell the tasks of node %s", list, env.First("SLURM_NODEID"))
}
