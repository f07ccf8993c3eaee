package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// contexts is a driver that knows nothing but which context is current, on one thread.
type contexts struct {
	current Context
	sets    int
	fail    Result
}

func (c *contexts) device(index int) *Device {
	return &Device{index: index, context: Context(100 + index), driver: &Driver{
		GetErrorName:   func(Result) string { return "NAME" },
		GetErrorString: func(Result) string { return "text" },
		CtxGetCurrent:  func() (Context, Result) { return c.current, Success },
		CtxSetCurrent: func(x Context) Result {
			c.sets++
			if c.fail == Success {
				c.current = x
			}
			return c.fail
		},
	}}
}

func TestEnterKeepsAndPutsBack(t *testing.T) {
	var c contexts
	a, b := c.device(0), c.device(1)
	thread, err := a.Enter()
	require.NoError(t, err)
	require.Equal(t, a.context, c.current)
	inner, err := b.Enter()
	require.NoError(t, err)
	require.Equal(t, b.context, c.current)
	inner.Leave()
	require.Equal(t, a.context, c.current)
	thread.Leave()
	require.Equal(t, a.context, c.current, "a thread without a context keeps ours")
	require.Equal(t, 3, c.sets)
	thread, err = a.Enter()
	require.NoError(t, err)
	thread.Leave()
	require.Equal(t, 3, c.sets, "nothing to set")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		thread, _ := b.Enter()
		thread.Leave()
	}))
}

func TestEnterFails(t *testing.T) {
	c := contexts{fail: InvalidContext}
	_, err := c.device(2).Enter()
	require.EqualError(t, err, "cuda: cuCtxSetCurrent on device 2: NAME (201): text")
}

func TestMappingGivesBackOnFailure(t *testing.T) {
	for _, failing := range []string{"", "reserve", "map", "access"} {
		var held []string
		take := func(what string) Result {
			if what == failing {
				return InvalidValue
			}
			held = append(held, what)
			return Success
		}
		give := func(what string) Result {
			require.Equal(t, what, held[len(held)-1])
			held = held[:len(held)-1]
			return Success
		}
		d := (&contexts{}).device(0)
		d.driver.MemGetAllocationGranularity = func(DeviceID) (int, Result) { return 64, Success }
		d.driver.MemCreate = func(n int, _ DeviceID) (Allocation, Result) { return Allocation(n), take("create") }
		d.driver.MemAddressReserve = func(int) (Pointer, Result) { return 1 << 20, take("reserve") }
		d.driver.MemMap = func(Pointer, int, Allocation) Result { return take("map") }
		d.driver.MemSetAccess = func(Pointer, int, DeviceID) Result {
			if failing == "access" {
				return InvalidValue
			}
			return Success
		}
		d.driver.MemUnmap = func(Pointer, int) Result { return give("map") }
		d.driver.MemAddressFree = func(Pointer, int) Result { return give("reserve") }
		d.driver.MemRelease = func(Allocation) Result { return give("create") }
		s, err := Thread{Device: d}.AllocShared(65)
		if failing == "" {
			require.NoError(t, err)
			require.Equal(t, &Shared{1 << 20, 128, 128}, s)
			require.NoError(t, Thread{Device: d}.FreeShared(s))
		} else {
			require.ErrorIs(t, err, InvalidValue, failing)
		}
		require.Empty(t, held, failing)
	}
}
