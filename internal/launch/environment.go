package launch

import (
	"crypto/rand"
	"net"
	"strconv"
	"strings"
)

// environment returns the variables that torchrun (PyTorch 2.11) sets for a worker of a job on one machine whose agent
// serves the store. Base is the environment they are added to.
func environment(base []string, addr, id string, rank, size int) ([]string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	r, n := strconv.Itoa(rank), strconv.Itoa(size)
	vars := []string{
		"RANK=" + r, "LOCAL_RANK=" + r, "ROLE_RANK=" + r, "GROUP_RANK=0",
		"WORLD_SIZE=" + n, "LOCAL_WORLD_SIZE=" + n, "ROLE_WORLD_SIZE=" + n, "GROUP_WORLD_SIZE=1",
		"ROLE_NAME=default", "MASTER_ADDR=" + host, "MASTER_PORT=" + port,
		"TORCHELASTIC_RUN_ID=" + id, "TORCHELASTIC_RESTART_COUNT=0", "TORCHELASTIC_MAX_RESTARTS=0",
		"TORCHELASTIC_USE_AGENT_STORE=True",
	}
	if size > 1 && !has(base, "OMP_NUM_THREADS") {
		vars = append(vars, "OMP_NUM_THREADS=1")
	}
	return vars, nil
}

func has(env []string, name string) bool {
	for _, v := range env {
		if strings.HasPrefix(v, name+"=") {
			return true
		}
	}
	return false
}

// newID names one run of a job.
func newID() string { return rand.Text() }
