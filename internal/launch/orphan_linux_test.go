package launch

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLauncherKilled kills a launcher that cannot tidy up, and expects its rank to end.
func TestLauncherKilled(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(self)
	c.Env = append(os.Environ(), mode+"=launcher")
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	s := bufio.NewScanner(out)
	require.True(t, s.Scan())
	pid, err := strconv.Atoi(s.Text())
	require.NoError(t, err)
	require.NoError(t, c.Process.Kill())
	requireGone(t, pid)
	require.Error(t, c.Wait())
}
