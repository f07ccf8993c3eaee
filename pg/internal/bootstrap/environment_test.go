package bootstrap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// vars is an environment.
type vars map[string]string

func (v vars) lookup(name string) (string, bool) {
	value, ok := v[name]
	return value, ok
}

// with adds to an environment.
func (v vars) with(more vars) vars {
	all := vars{}
	for _, from := range []vars{v, more} {
		for name, value := range from {
			all[name] = value
		}
	}
	return all
}

// Variables that launchers set, as their manuals and sources say.
var (
	torchrun = vars{"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1",
		"GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "node0", "MASTER_PORT": "29400", "TORCHELASTIC_RESTART_COUNT": "2",
		"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_USE_AGENT_STORE": "False"}
	slurm = vars{"SLURM_PROCID": "3", "SLURM_NTASKS": "16", "SLURM_LOCALID": "3", "SLURM_NODEID": "0",
		"SLURM_JOB_NODELIST": "gpu[03-07,9],login1", "SLURM_JOB_ID": "1234567"}
	openMPI = vars{"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "2",
		"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
	mpich      = vars{"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
	pyTorchJob = vars{"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456",
		"PET_MASTER_ADDR": "job-master-0", "PET_MASTER_PORT": "23456", "PET_NODE_RANK": "1", "PET_NNODES": "3",
		"PET_NPROC_PER_NODE": "auto", "PYTHONUNBUFFERED": "1"}
	trainJob = vars{"PET_NNODES": "4", "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": "3", "PET_MASTER_ADDR": "job-node-0-0.job",
		"PET_MASTER_PORT": "29400"}
)

// TestEnvironment reads the variables of every launcher.
func TestEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		env  vars
		want Identity
	}{
		"torchrun": {torchrun, Identity{Rank: 5, Size: 8, addr: "node0:29400"}},
		"torchrun, agent's store": {torchrun.with(vars{"TORCHELASTIC_USE_AGENT_STORE": "True"}),
			Identity{Rank: 5, Size: 8, addr: "node0:29400", agentStore: true, attempt: "2"}},
		"torchrun under Slurm": {slurm.with(torchrun), Identity{Rank: 5, Size: 8, addr: "node0:29400"}},
		"torchrun in a PyTorchJob": {pyTorchJob.with(vars{"PET_NPROC_PER_NODE": "4"}).with(torchrun),
			Identity{Rank: 5, Size: 8, addr: "node0:29400"}},
		"four variables": {vars{"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "::1", "MASTER_PORT": "1"},
			Identity{Size: 2, addr: "[::1]:1"}},
		"bracketed address": {vars{"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "[fe80::1%eth0]", "MASTER_PORT": "1"},
			Identity{Size: 2, addr: "[fe80::1%eth0]:1"}},
		"default port":      {vars{"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "h"}, Identity{Size: 2, addr: "h:29500"}},
		"alone":             {vars{"RANK": "0", "WORLD_SIZE": "1"}, Identity{Size: 1, addr: "localhost:29500"}},
		"alone, free port":  {vars{"RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "0"}, Identity{Size: 1, addr: "localhost:0"}},
		"Slurm":             {slurm, Identity{Rank: 3, Size: 16, addr: "gpu03:24567"}},
		"Slurm step":        {slurm.with(vars{"SLURM_STEP_NODELIST": "gpu[04-05]"}), Identity{Rank: 3, Size: 16, addr: "gpu04:24567"}},
		"Slurm, address":    {slurm.with(vars{"MASTER_ADDR": "a", "MASTER_PORT": "7"}), Identity{Rank: 3, Size: 16, addr: "a:7"}},
		"Slurm, no job id":  {slurm.with(vars{"SLURM_JOB_ID": "x"}), Identity{Rank: 3, Size: 16, addr: "gpu03:29500"}},
		"Open MPI":          {openMPI, Identity{Rank: 2, Size: 4, addr: "localhost:29500"}},
		"Open MPI, address": {openMPI.with(vars{"MASTER_ADDR": "a"}), Identity{Rank: 2, Size: 4, addr: "a:29500"}},
		"Open MPI, Slurm":   {slurm.with(openMPI), Identity{Rank: 2, Size: 4, addr: "gpu03:24567"}},
		"MPICH":             {mpich, Identity{Rank: 1, Size: 2, addr: "localhost:29500"}},
		"PyTorchJob":        {pyTorchJob, Identity{Rank: 1, Size: 3, addr: "job-master-0:23456"}},
		"PyTorchJob, one process in a pod": {pyTorchJob.with(vars{"PET_NPROC_PER_NODE": "1"}),
			Identity{Rank: 1, Size: 3, addr: "job-master-0:23456"}},
		"TrainJob":             {trainJob, Identity{Rank: 3, Size: 4, addr: "job-node-0-0.job:29400"}},
		"TrainJob with a word": {trainJob.with(vars{"PET_NPROC_PER_NODE": "auto"}), Identity{Rank: 3, Size: 4, addr: "job-node-0-0.job:29400"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := identify(&Options{}, c.env.lookup)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			require.NoError(t, got.check())
		})
	}
}

// TestBadEnvironment refuses what does not make sense, and says which variable it was.
func TestBadEnvironment(t *testing.T) {
	for says, env := range map[string]vars{
		"no rank in the environment":                                          {"WORLD_SIZE": "4", "MASTER_ADDR": "h"},
		`environment variable RANK is "one", not a number from 0`:             torchrun.with(vars{"RANK": "one"}),
		`environment variable RANK is "-1", not a number from 0`:              torchrun.with(vars{"RANK": "-1"}),
		`environment variable RANK is "", not a number from 0`:                torchrun.with(vars{"RANK": ""}),
		`environment variable WORLD_SIZE is "8x", not`:                        torchrun.with(vars{"WORLD_SIZE": "8x"}),
		"rank 8 of 8 ranks":                                                   torchrun.with(vars{"RANK": "8"}),
		"rank 5 of 0 ranks":                                                   torchrun.with(vars{"WORLD_SIZE": "0"}),
		"RANK is set but WORLD_SIZE is not":                                   {"RANK": "0"},
		"SLURM_PROCID is set but SLURM_NTASKS is not":                         {"SLURM_PROCID": "0"},
		"MASTER_ADDR is not set":                                              {"RANK": "0", "WORLD_SIZE": "2"},
		`environment variable MASTER_PORT is "http"`:                          torchrun.with(vars{"MASTER_PORT": "http"}),
		"MASTER_PORT is 65536":                                                torchrun.with(vars{"MASTER_PORT": "65536"}),
		"MASTER_PORT is 0":                                                    torchrun.with(vars{"MASTER_PORT": "0"}),
		`PET_NNODES is "1:4", not`:                                            trainJob.with(vars{"PET_NNODES": "1:4"}),
		"PET_NODE_RANK=3 counts pods, and PET_NPROC_PER_NODE asks for 8":      trainJob.with(vars{"PET_NPROC_PER_NODE": "8"}),
		"RANK=1 counts pods, and PET_NPROC_PER_NODE asks for 2 processes in ": pyTorchJob.with(vars{"PET_NPROC_PER_NODE": "2"}),
	} {
		t.Run(says, func(t *testing.T) {
			_, _, err := identify(&Options{}, env.lookup)
			require.ErrorContains(t, err, says)
		})
	}
}

// TestFirstNode reads Slurm's node lists.
func TestFirstNode(t *testing.T) {
	for list, want := range map[string]string{
		"gpu[03-07,9],login1": "gpu03",
		"a[1-2]b":             "a1b",
		"a[1-2]b,c":           "a1b",
		"login1,gpu[1-2]":     "login1",
		"gpu[7]":              "gpu7",
		"gpu[9,12-13]":        "gpu9",
		"rack[1-2]n[08-11],x": "rack1n08",
		"host":                "host",
		"host.example.org,b":  "host.example.org",
		"a[3":                 "a3",
		"":                    "",
	} {
		require.Equal(t, want, firstNode(list), list)
	}
}

// TestIdentify puts URL, Options and environment in their order.
func TestIdentify(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		env     vars
		want    Identity
	}{
		"environment":            {Options{}, torchrun, Identity{Rank: 5, Size: 8, addr: "node0:29400"}},
		"env with Options":       {Options{URL: "env://", Rank: 1, Size: 3}, torchrun, Identity{Rank: 1, Size: 3, addr: "node0:29400"}},
		"env with a query":       {Options{URL: "env://?rank=2&world_size=6"}, torchrun, Identity{Rank: 2, Size: 6, addr: "node0:29400"}},
		"query before Options":   {Options{URL: "tcp://h:1?rank=2&world_size=6", Rank: 1, Size: 3}, nil, Identity{Rank: 2, Size: 6, addr: "h:1"}},
		"tcp with Options":       {Options{URL: "tcp://[::1]:7", Rank: 1, Size: 3}, nil, Identity{Rank: 1, Size: 3, addr: "[::1]:7"}},
		"tcp from environment":   {Options{URL: "tcp://h:1"}, torchrun, Identity{Rank: 5, Size: 8, addr: "h:1"}},
		"query for all of env":   {Options{URL: "env://?rank=0&world_size=2"}, vars{"MASTER_ADDR": "h", "MASTER_PORT": "9"}, Identity{Size: 2, addr: "h:9"}},
		"Options for all of env": {Options{Size: 2, Rank: 1}, vars{"MASTER_ADDR": "h", "MASTER_PORT": "9"}, Identity{Rank: 1, Size: 2, addr: "h:9"}},
		"file with Options":      {Options{URL: "file:///x", Rank: 1, Size: 3}, nil, Identity{Rank: 1, Size: 3}},
		"file from environment":  {Options{URL: "file:///x"}, openMPI, Identity{Rank: 2, Size: 4}},
		"file, rank and no host": {Options{URL: "file:///x"}, vars{"RANK": "1", "WORLD_SIZE": "2"}, Identity{Rank: 1, Size: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := identify(&c.options, c.env.lookup)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// TestBadURL refuses URLs, and says what is wrong with them.
func TestBadURL(t *testing.T) {
	for url, says := range map[string]string{
		"http://host:1":                        "does not begin with env://, tcp:// or file://",
		"localhost:1234":                       "does not begin with env://, tcp:// or file://",
		"127.0.0.1:1234":                       "want env://, tcp://host:port or file:///path",
		"/tmp/file":                            "does not begin with env://, tcp:// or file://",
		"file://":                              "names no file",
		"file://relative/path":                 `names the host "relative"`,
		"tcp://host":                           "does not name host and port",
		"tcp://:1234":                          "does not name host and port",
		"tcp://":                               "does not name host and port",
		"tcp://host:http":                      "invalid port",
		"tcp://host:99999?rank=0&world_size=2": "names port 99999",
		"tcp://host:0?rank=0&world_size=2":     "port 0",
		"tcp://host:1?rank=x":                  `rank is ["x"], not one number from 0`,
		"tcp://host:1?rank=1&world_size=":      `world_size is [""], not one number from 0`,
		"tcp://host:1?ranks=1":                 `unknown parameter "ranks"; there are rank and world_size`,
		"tcp://host:1?rank=0&rank=1":           `rank is ["0" "1"], not one number from 0`,
		"tcp://host:1?rank=2&world_size=2":     "rank 2 of 2 ranks",
		"tcp://host:1?rank=0&world_size=0":     "rank 0 of 0 ranks",
		"tcp://host:1?rank=-1&world_size=2":    `rank is ["-1"], not one number from 0`,
		"tcp://host:1?world_size=2":            "no rank in the environment",
		"tcp://host:1?rank=%zz":                "invalid URL escape",
		"tcp://host:1/path?rank=0":             `names the path "/path"`,
		"env://host?rank=0&world_size=1":       "names a place",
		"%":                                    "invalid URL escape",
	} {
		t.Run(url, func(t *testing.T) {
			_, _, err := identify(&Options{URL: url}, vars{}.lookup)
			require.ErrorContains(t, err, says)
		})
	}
}
