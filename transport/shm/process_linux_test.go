package shm

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/colligo-go/colligo/transport"
)

// A test that needs real processes starts this test binary again for each further rank. The flags say what a child is.
var (
	childRole  = flag.String("shm.role", "", "role of a child process; empty: run the tests")
	childRank  = flag.Int("shm.rank", 0, "rank of a child process")
	childSize  = flag.Int("shm.size", 0, "size of a child process's group")
	childDir   = flag.String("shm.dir", "", "folder by which the processes meet")
	childCount = flag.Int("shm.count", 0, "messages, for the role")
	childBytes = flag.Int("shm.bytes", 0, "bytes of a message, for the role")
	childFrame = flag.Int("shm.frame", 0, "Config.FrameBytes of a child process")
	childSlots = flag.Int("shm.slots", 0, "Config.Slots of a child process")
)

const limit = time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	if *childRole == "" {
		os.Exit(m.Run())
	}
	if err := child(*childRole); err != nil {
		fmt.Fprintf(os.Stderr, "rank %d, %s: %v\n", *childRank, *childRole, err)
		os.Exit(1)
	}
}

// child opens the mesh of a child process and plays its role.
func child(role string) error {
	c := processConfig(*childDir, *childRank, *childSize)
	c.FrameBytes, c.Slots = *childFrame, *childSlots
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	m, err := Open(ctx, c)
	if err != nil {
		return err
	}
	f := roles[role]
	if f == nil {
		return fmt.Errorf("no such role")
	}
	return errors.Join(f(m, c), m.Close())
}

// processConfig is the configuration of a rank whose peers are other processes.
func processConfig(dir string, rank, size int) *transport.Config {
	return &transport.Config{Rank: rank, Size: size, Group: 7, Name: "processes", Lanes: 2,
		Secret: []byte("a secret of thirty-two bytes ..."), Rendezvous: folder(dir)}
}

// folder is a rendezvous of files.
type folder string

func (f folder) path(key string) string {
	return filepath.Join(string(f), strings.ReplaceAll(key, "/", "-"))
}

func (f folder) Set(_ context.Context, key string, value []byte) error {
	if err := os.WriteFile(f.path(key)+".new", value, 0o600); err != nil {
		return err
	}
	return os.Rename(f.path(key)+".new", f.path(key))
}

func (f folder) Get(ctx context.Context, key string) ([]byte, error) {
	for {
		b, err := os.ReadFile(f.path(key))
		if !errors.Is(err, os.ErrNotExist) {
			return b, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// process is a child process that plays one rank.
type process struct {
	*exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

// launch starts a child; it is killed when the test ends.
func launch(t testing.TB, dir, role string, rank, size, count, bytes int, more ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"-shm.role=" + role, "-shm.dir=" + dir, fmt.Sprintf("-shm.rank=%d", rank),
		fmt.Sprintf("-shm.size=%d", size), fmt.Sprintf("-shm.count=%d", count), fmt.Sprintf("-shm.bytes=%d", bytes)}, more...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &process{cmd, in, bufio.NewReader(out)}
}

// openProcess opens rank 0 of a group whose other ranks are children.
func openProcess(t testing.TB, dir string, size int, change func(*transport.Config)) transport.Mesh {
	t.Helper()
	c := processConfig(dir, 0, size)
	if change != nil {
		change(c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	m, err := Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// send offers a frame until it is taken.
func send(m transport.Mesh, peer, lane int, seq uint64, p []byte) error {
	h := transport.Header{Lane: uint16(lane), Len: uint32(len(p)), Total: uint64(len(p)), Call: transport.Call{Seq: seq}}
	for idle := 1; ; idle++ {
		if ok, err := m.Link(peer).Send(&h, p); ok || err != nil {
			return err
		}
		m.Wait(idle, time.Time{})
	}
}

// receive waits for a frame, hands its payload to f and releases it.
func receive(m transport.Mesh, peer, lane int, f func(*transport.Header, []byte) error) error {
	l := m.Link(peer)
	for idle := 1; ; idle++ {
		h, err := l.Head(lane)
		if err != nil {
			return err
		}
		if h == nil {
			m.Wait(idle, time.Time{})
			continue
		}
		p, _, err := l.Body(lane, nil)
		if err != nil {
			return err
		}
		if err := f(h, p); err != nil {
			return err
		}
		l.Release(lane)
		return nil
	}
}

// roles are what children do once their mesh is open.
var roles = map[string]func(transport.Mesh, *transport.Config) error{
	"echo": func(m transport.Mesh, _ *transport.Config) error {
		b := make([]byte, *childBytes)
		for i := range uint64(*childCount) {
			if err := receive(m, 0, 0, func(h *transport.Header, p []byte) error { copy(b, p); return nil }); err != nil {
				return err
			}
			if err := send(m, 0, 0, i, b); err != nil {
				return err
			}
		}
		return nil
	},
	"sink": func(m transport.Mesh, _ *transport.Config) error {
		dst := make([]byte, *childBytes)
		for done := 0; done < *childCount**childBytes; {
			err := receive(m, 0, 0, func(h *transport.Header, p []byte) error {
				at := done % *childBytes
				done += copy(dst[at:], p)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return send(m, 0, 0, 0, nil)
	},
	"tokens": tokens,
}

// tokens has every rank send every peer a frame of 8 bytes and take one from each, count times.
func tokens(m transport.Mesh, c *transport.Config) error {
	var b [8]byte
	for i := range uint64(*childCount) {
		binary.LittleEndian.PutUint64(b[:], i)
		for k := 1; k < c.Size; k++ {
			if err := send(m, (c.Rank+k)%c.Size, 0, i, b[:]); err != nil {
				return err
			}
		}
		for k := 1; k < c.Size; k++ {
			peer := (c.Rank + c.Size - k) % c.Size
			err := receive(m, peer, 0, func(h *transport.Header, p []byte) error {
				if got := binary.LittleEndian.Uint64(p); got != i || h.Call.Seq != i {
					return fmt.Errorf("token %d of rank %d says %d", i, peer, got)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
