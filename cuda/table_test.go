package cuda

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTableIsComplete(t *testing.T) {
	asked := map[string]bool{}
	l, err := resolve("/lib/fake.so", func(name string) uintptr {
		require.NotEmpty(t, name)
		require.False(t, asked[name], "%s is asked for twice", name)
		asked[name] = true
		return 1
	})
	require.NoError(t, err)
	require.Len(t, asked, int(numSymbols))
	d := reflect.ValueOf(*l.driver())
	for i := range d.NumField() {
		if f := d.Field(i); f.Kind() == reflect.Func {
			require.False(t, f.IsNil(), "%s is not bound", d.Type().Field(i).Name)
		}
	}
	require.Equal(t, "/lib/fake.so", l.driver().Path)
}

func TestOldDriverIsNamed(t *testing.T) {
	_, err := resolve("/lib/old.so", func(name string) uintptr {
		if name == "cuStreamWriteValue32_v2" || name == "cuMemMap" || name == "cuFuncLoad" {
			return 0
		}
		return 1
	})
	require.EqualError(t, err, "cuda: the driver /lib/old.so is too old, CUDA 11.7 (515) is needed: "+
		"it lacks cuStreamWriteValue32_v2, cuMemMap")
	_, err = resolve("", func(name string) uintptr {
		if name == "cuFuncLoad" {
			return 0
		}
		return 1
	})
	require.NoError(t, err)
}

func TestErrorSaysEverything(t *testing.T) {
	d := &Driver{
		GetErrorName:   func(r Result) string { return "CUDA_ERROR_OUT_OF_MEMORY" },
		GetErrorString: func(r Result) string { return "out of memory" },
	}
	require.NoError(t, d.check("cuInit", -1, Success))
	require.EqualError(t, d.check("cuInit", -1, OutOfMemory), "cuda: cuInit: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory")
	err := d.check("cuMemAlloc", 3, OutOfMemory)
	require.EqualError(t, err, "cuda: cuMemAlloc on device 3: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory")
	require.ErrorIs(t, err, OutOfMemory)
	require.NotErrorIs(t, err, NotReady)
	var e *Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, Error{"cuMemAlloc", 3, OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}, *e)
	require.Equal(t, "CUDA result 600", NotReady.Error())
}

func TestUnsupportedSystemsHaveNoDriver(t *testing.T) {
	require.ErrorIs(t, ErrUnsupported, ErrNoDriver)
	require.EqualError(t, ErrUnsupported, "cuda: no NVIDIA driver: none exists for this operating system and processor")
}
