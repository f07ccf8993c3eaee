package tcpstore

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// idleClients is the first argument of the child process that holds clients open.
const idleClients = "idle-clients"

// holdClients opens as many connections as told, each greeted and answered, says so, and holds them until its input
// ends. It is a process of its own because a process may open fewer files than both sides need.
func holdClients(addr, number string) int {
	n, err := strconv.Atoi(number)
	held := make([]net.Conn, n)
	for i := range held {
		if err == nil {
			held[i], err = holdOne(addr)
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	if _, err = io.Copy(io.Discard, os.Stdin); err != nil {
		return 1
	}
	// Until here the collector must not close them.
	runtime.KeepAlive(held)
	return 0
}

func holdOne(addr string) (net.Conn, error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if _, err := nc.Write(request{cmdValidate}.uint32(magic)); err != nil {
		return nil, err
	}
	if _, err := nc.Write(request{cmdPing}.uint32(7)); err != nil {
		return nil, err
	}
	_, err = io.ReadFull(nc, make([]byte, 4))
	return nc, err
}

// resident is this process's resident memory in bytes.
func resident(t *testing.T) int {
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kib), "kB")))
			require.NoError(t, err)
			return n << 10
		}
	}
	require.FailNow(t, "no VmRSS in /proc/self/status")
	return 0
}

// TestManyClients holds a server with 10,000 idle clients to 1 GiB of resident memory, and to answering one more.
func TestManyClients(t *testing.T) {
	s := serve(t, ServerOptions{})
	before := resident(t)
	child := exec.Command(os.Args[0], idleClients, s.Addr().String(), fmt.Sprint(manyClients))
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	require.NoError(t, err)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	require.Equal(t, manyClients, s.Clients())
	after := resident(t)
	t.Logf("%d clients: %d MiB resident, %d MiB before", manyClients, after>>20, before>>20)
	require.Less(t, after, 1<<30)
	c := dial(t, s, ClientOptions{WorldSize: 1})
	require.NoError(t, c.Set(t.Context(), "k", []byte("v")))
	got, err := c.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, "v", string(got))
	require.NoError(t, in.Close())
	require.NoError(t, child.Wait())
	eventually(t, "all gone", func() bool { return s.Clients() == 1 })
}
