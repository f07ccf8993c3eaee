package streamorder

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/cuda"
	"github.com/colligo-go/colligo/cuda/cudasim"
)

// simulated returns a device of a simulated driver, which may be changed before it is used.
func simulated(t *testing.T, change func(*cuda.Driver)) *cuda.Device {
	t.Helper()
	sim := cudasim.New(cudasim.Config{Devices: 1})
	cudasim.Limit(t, sim)
	t.Cleanup(sim.Close)
	d := *sim.Driver()
	if change != nil {
		change(&d)
	}
	device, err := d.Device(0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, device.Close()) })
	return device
}

// TestCommandsStop has the driver refuse one command, and looks at those after it: none is enqueued.
func TestCommandsStop(t *testing.T) {
	t.Parallel()
	device := simulated(t, func(d *cuda.Driver) {
		d.StreamWaitValue32 = func(cuda.Stream, cuda.Pointer, uint32, cuda.WaitFlags) cuda.Result { return cuda.NotSupported }
	})
	require.NoError(t, OnDevice(device, func(t2 cuda.Thread) error {
		at, err := t2.Alloc(8)
		require.NoError(t, err)
		host, err := t2.AllocHost(8)
		require.NoError(t, err)
		s, err := t2.NewStream(0)
		require.NoError(t, err)
		c, reached := On(t2), false
		c.Set32(at, 7, 2, s)
		c.Wait32(s, at, 1)
		c.Copy(host.Device, at, 8, s)
		c.Write32(s, at, 9)
		c.Do(func() error { reached = true; return nil })
		c.Synchronize(s)
		require.ErrorIs(t, c.Err, cuda.NotSupported)
		require.False(t, reached)
		c = On(t2)
		c.Copy(host.Device, at, 8, s)
		c.Synchronize(s)
		require.NoError(t, c.Err)
		require.Equal(t, []byte{7, 0, 0, 0, 7, 0, 0, 0}, host.Bytes)
		return errors.Join(t2.Free(at), t2.FreeHost(host), t2.DestroyStream(s))
	}))
}
