//go:build unix

package cudasim_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// Memory goes to another process as a descriptor that is sent over a socket, and outlives its maker.
func TestVirtualMemory(t *testing.T) {
	sim, r, _ := pair(t, cudasim.Config{})
	defer cudasim.Check(t, sim)
	var fd, bytes int
	var mine *cuda.Shared
	r[0].on(0, func(th cuda.Thread) {
		var err error
		mine, err = th.AllocShared(100)
		require.NoError(t, err)
		bytes = mine.Bytes
		require.Equal(t, 2<<20, bytes)
		require.NoError(t, th.Set32(mine.Pointer, 5, 4, 0))
		require.NoError(t, th.Synchronize(0))
		fd, err = th.ExportFD(mine)
		require.NoError(t, err)
	})
	fd = sent(t, fd)
	r[1].on(1, func(th cuda.Thread) {
		s, err := th.ImportShared(fd, bytes)
		require.NoError(t, err)
		require.NoError(t, unix.Close(fd))
		r[0].on(0, func(th cuda.Thread) { require.NoError(t, th.FreeShared(mine)) })
		require.Equal(t, []uint32{5, 5, 5, 5, 0}, r[1].words(1, s.Pointer, 5))
		free, total, err := th.MemoryInfo()
		require.NoError(t, err)
		require.Equal(t, total, free, "it is the other device's memory")
		require.ErrorIs(t, r[1].devices[0].Driver().MemMap(s.Pointer, bytes, 99), cuda.InvalidValue)
		require.NoError(t, th.FreeShared(s))
	})
	r[1].on(0, func(th cuda.Thread) {
		free, total, err := th.MemoryInfo()
		require.NoError(t, err)
		require.Equal(t, total, free)
	})
	r[0].close()
	r[1].close()
}

// sent sends a descriptor over a socket and closes it.
func sent(t *testing.T, fd int) int {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Sendmsg(ends[0], []byte{0}, unix.UnixRights(fd), nil, 0))
	require.NoError(t, unix.Close(fd))
	space := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(ends[1], make([]byte, 1), space, 0)
	require.NoError(t, err)
	messages, err := unix.ParseSocketControlMessage(space[:n])
	require.NoError(t, err)
	fds, err := unix.ParseUnixRights(&messages[0])
	require.NoError(t, err)
	require.NoError(t, unix.Close(ends[0]))
	require.NoError(t, unix.Close(ends[1]))
	return fds[0]
}

func TestVirtualAccess(t *testing.T) {
	r := looseRig(t, cudasim.Config{Devices: 2})
	r.on(0, func(th cuda.Thread) {
		s, err := th.AllocShared(1)
		require.NoError(t, err)
		r.on(1, func(th cuda.Thread) { require.ErrorIs(t, th.Set8(s.Pointer, 0, 1, 0), notEnabled) })
		require.NoError(t, th.AllowShared(s, r.devices[1]))
		r.on(1, func(th cuda.Thread) {
			require.NoError(t, th.Set8(s.Pointer, 0, 1, 0))
			require.NoError(t, th.Synchronize(0))
		})
		require.NoError(t, th.FreeShared(s))
	})
	r.close()
	cudasim.Check(t, r.sim)
}

func TestNoVirtualMemory(t *testing.T) {
	r := newRig(t, cudasim.Config{Attributes: map[cuda.Attribute]int{cuda.VirtualMemory: 0}})
	r.on(0, func(th cuda.Thread) {
		_, err := th.AllocShared(1)
		require.ErrorIs(t, err, cuda.NotSupported)
	})
}
