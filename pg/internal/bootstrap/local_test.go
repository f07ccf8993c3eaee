package bootstrap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLocal reads the local rank and size of every launcher.
func TestLocal(t *testing.T) {
	step := slurm.with(vars{"SLURM_STEP_TASKS_PER_NODE": "8(x2),3", "SLURM_NTASKS": "19"})
	for name, c := range map[string]struct {
		env        vars
		rank, size int
	}{
		"torchrun":                 {torchrun, 1, 4},
		"torchrun under Slurm":     {step.with(torchrun), 1, 4},
		"torchrun in a PyTorchJob": {pyTorchJob.with(torchrun), 1, 4},
		"Open MPI":                 {openMPI, 2, 4},
		"Open MPI, Slurm":          {step.with(openMPI), 2, 4},
		"MPICH":                    {mpich, 1, 2},
		"Slurm":                    {step, 3, 8},
		"Slurm, second node":       {step.with(vars{"SLURM_NODEID": "1"}), 3, 8},
		"Slurm, last node":         {step.with(vars{"SLURM_NODEID": "2", "SLURM_LOCALID": "0"}), 0, 3},
		"Slurm, of the job":        {slurm.with(vars{"SLURM_TASKS_PER_NODE": "4,12"}), 3, 4},
		"PyTorchJob":               {pyTorchJob, 0, 1},
		"TrainJob":                 {trainJob, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			rank, err := LocalRank(c.env.lookup)
			require.NoError(t, err)
			size, err := LocalSize(c.env.lookup)
			require.NoError(t, err)
			require.Equal(t, [2]int{c.rank, c.size}, [2]int{rank, size})
		})
	}
}

// TestNoLocal refuses environments that do not tell.
func TestNoLocal(t *testing.T) {
	for says, env := range map[string]vars{
		"no rank in the environment":                                          {},
		"RANK is set, but LOCAL_RANK and LOCAL_WORLD_SIZE are not":            {"RANK": "0", "WORLD_SIZE": "2"},
		"environment variable LOCAL_RANK is \"x\", not a number from 0":       torchrun.with(vars{"LOCAL_RANK": "x", "LOCAL_WORLD_SIZE": ""}),
		"RANK=1 counts pods, and PET_NPROC_PER_NODE asks for 2 processes in ": pyTorchJob.with(vars{"PET_NPROC_PER_NODE": "2"}),
	} {
		t.Run(says, func(t *testing.T) {
			_, err := LocalRank(env.lookup)
			require.ErrorContains(t, err, says)
			_, err = LocalSize(env.lookup)
			require.Error(t, err)
		})
	}
	for _, list := range []string{"", "8(x2", "8(x2),", "many", "8(xtwo)", "-1", "2(x0)"} {
		_, err := LocalSize(slurm.with(vars{"SLURM_STEP_TASKS_PER_NODE": list, "SLURM_NODEID": "2"}).lookup)
		require.ErrorContains(t, err, "tasks of node 2", list)
	}
}
