package tcp

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/transport"
)

// Tests that need a peer in a process of its own run this test binary again with a role.
var (
	childRole   = flag.String("child", "", "role of a child process of a test")
	childFolder = flag.String("folder", "", "rendezvous folder of a child process")
	childLanes  = flag.Int("lanes", 2, "lanes of a child process")
	childFrame  = flag.Int("frame", 0, "frame size of a child process")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *childRole == "" {
		os.Exit(m.Run())
	}
	c := twoRanks(1, *childFolder)
	c.Lanes, c.FrameBytes = *childLanes, *childFrame
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	mesh, err := Open(ctx, c)
	if err == nil {
		err = roles[*childRole](mesh)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// folder is a transport.Rendezvous of files.
type folder string

func (f folder) file(key string) string {
	return filepath.Join(string(f), strings.ReplaceAll(key, "/", "_"))
}

func (f folder) Set(_ context.Context, key string, value []byte) error {
	if err := os.WriteFile(f.file(key)+".new", value, 0o600); err != nil {
		return err
	}
	return os.Rename(f.file(key)+".new", f.file(key))
}

func (f folder) Get(ctx context.Context, key string) ([]byte, error) {
	for {
		b, err := os.ReadFile(f.file(key))
		if err == nil || !os.IsNotExist(err) {
			return b, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

var noLimit time.Time

func twoRanks(rank int, dir string) *transport.Config {
	return &transport.Config{Rank: rank, Size: 2, Group: 9, Name: "two", Lanes: 2, Secret: []byte("s"), Host: "127.0.0.1",
		Rendezvous: folder(dir)}
}

// withChild opens rank 0 here and rank 1 in a child process with a role.
func withChild(t testing.TB, role string, change func(*transport.Config)) (transport.Mesh, *exec.Cmd) {
	t.Helper()
	dir := t.TempDir()
	c := twoRanks(0, dir)
	if change != nil {
		change(c)
	}
	cmd := exec.Command(os.Args[0], "-child", role, "-folder", dir, "-lanes", fmt.Sprint(c.Lanes), "-frame", fmt.Sprint(c.FrameBytes))
	var said bytes.Buffer
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if said.Len() > 0 {
			t.Logf("child: %s", said.String())
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := Open(ctx, c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m, cmd
}

// sendAll and receive block, as an engine with nothing else to do.
func sendAll(m transport.Mesh, peer int, h transport.Header, p []byte) error {
	h.Len, h.Total = uint32(len(p)), uint64(len(p))
	for idle := 1; ; idle++ {
		ok, err := m.Link(peer).Send(&h, p)
		if ok || err != nil {
			return err
		}
		m.Wait(idle, time.Time{})
	}
}

func receive(m transport.Mesh, peer, lane int, dst []byte) (*transport.Header, []byte, error) {
	l := m.Link(peer)
	for idle := 1; ; idle++ {
		h, err := l.Head(lane)
		if err != nil {
			return nil, nil, err
		}
		if h != nil {
			if int(h.Len) != len(dst) {
				dst = nil
			}
			p, ok, err := l.Body(lane, dst)
			if ok || err != nil {
				return h, p, err
			}
		}
		m.Wait(idle, time.Time{})
	}
}
