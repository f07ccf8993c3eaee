package cuda_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/colligo-go/colligo/cuda"
)

// A child process does what this variable says, and nothing where it is not set.
const childVariable = "COLLIGO_GPU_CHILD"

// child runs this test binary again: it reads 0x21 out of the memory that it is handed, and writes 0x42.
func child(t *testing.T, task string, files ...*os.File) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestGPUChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), childVariable+"="+task)
	cmd.ExtraFiles = files
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "child done")
}

const sharedBytes = 1 << 16

func TestGPUChild(t *testing.T) {
	task := os.Getenv(childVariable)
	if task == "" {
		t.Skip("does nothing on its own: other tests start it in a process of its own")
	}
	devices := gpus(t)
	thread := enter(t, devices[len(devices)-1])
	kind, rest, _ := strings.Cut(task, ":")
	switch kind {
	case "ipc":
		var h cuda.IPCHandle
		n, err := hex.Decode(h[:], []byte(rest))
		require.NoError(t, err)
		require.Equal(t, len(h), n)
		p, err := thread.OpenIPC(h)
		require.NoError(t, err)
		useShared(t, thread, p, 0x21, 0x42)
		require.NoError(t, thread.CloseIPC(p))
	case "fd":
		size, err := strconv.Atoi(rest)
		require.NoError(t, err)
		s, err := thread.ImportShared(3, size)
		require.NoError(t, err)
		useShared(t, thread, s.Pointer, 0x21, 0x42)
		require.NoError(t, thread.FreeShared(s))
	}
	fmt.Println("child done")
}

// useShared sees that the memory is full of want and fills it with put.
func useShared(t *testing.T, thread cuda.Thread, p cuda.Pointer, want, put byte) {
	s, h := stream(t, thread), host(t, thread, sharedBytes)
	require.NoError(t, thread.Copy(h.Device, p, sharedBytes, s))
	require.NoError(t, thread.Synchronize(s))
	for i, b := range h.Bytes {
		require.Equal(t, want, b, "byte %d", i)
	}
	require.NoError(t, thread.Set8(p, put, sharedBytes, s))
	require.NoError(t, thread.Synchronize(s))
}

func TestGPUMemoryOfAnotherProcess(t *testing.T) {
	thread := enter(t, gpus(t)[0])
	p := alloc(t, thread, sharedBytes)
	s := stream(t, thread)
	require.NoError(t, thread.Set8(p, 0x21, sharedBytes, s))
	require.NoError(t, thread.Synchronize(s))
	h, err := thread.IPCHandle(p)
	require.NoError(t, err)
	child(t, "ipc:"+hex.EncodeToString(h[:]))
	useShared(t, thread, p, 0x42, 0)
}

func TestGPUMemoryByFileDescriptor(t *testing.T) {
	devices := gpus(t)
	thread := enter(t, devices[0])
	for _, a := range []cuda.Attribute{cuda.VirtualMemory, cuda.FileDescriptorHandles} {
		v, err := thread.Attribute(a)
		require.NoError(t, err)
		require.Equal(t, 1, v)
	}
	m, err := thread.AllocShared(sharedBytes)
	require.NoError(t, err)
	require.GreaterOrEqual(t, m.Bytes, sharedBytes)
	for _, d := range devices[1:] {
		require.NoError(t, thread.AllowShared(m, d))
	}
	s := stream(t, thread)
	require.NoError(t, thread.Set8(m.Pointer, 0x21, sharedBytes, s))
	require.NoError(t, thread.Synchronize(s))
	fd, err := thread.ExportFD(m)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "shared")
	child(t, fmt.Sprintf("fd:%d", m.Bytes), f)
	require.NoError(t, f.Close())
	useShared(t, thread, m.Pointer, 0x42, 0)
	require.NoError(t, thread.FreeShared(m))
}

func TestGPUPinsMemoryOfTheSystem(t *testing.T) {
	thread := enter(t, gpus(t)[0])
	b, err := unix.Mmap(-1, 0, sharedBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	h, err := thread.PinHost(b)
	require.NoError(t, err)
	s := stream(t, thread)
	require.NoError(t, thread.Set8(h.Device, 0x33, sharedBytes, s))
	require.NoError(t, thread.Synchronize(s))
	require.Equal(t, byte(0x33), b[sharedBytes-1])
	require.NoError(t, thread.FreeHost(h))
	require.NoError(t, unix.Munmap(b))
}
